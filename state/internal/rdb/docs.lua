-- Comes before the scripts that write documents. Their documents are KEYS from first on, with
-- these arguments from ARGV[arg] on:
--   ARGV[arg]            time to live, ms
--   ARGV[arg + 2*i - 1]  the i-th new document, empty to delete it
--   ARGV[arg + 2*i]      the versions it may replace, with a line feed before, between
--                        and after them; an empty one means "no document". They include
--                        the version that this write leaves, so that a repeated call is
--                        not a conflict.
-- The first 36 bytes of a document are its version (versionBytes in scope.go).

-- conflicts appends the numbers of the documents that have another version to lost.
local function conflicts(first, arg, lost)
  for i = 1, #KEYS - first + 1 do
    local have = redis.call('GETRANGE', KEYS[first + i - 1], 0, 35)
    if not string.find(ARGV[arg + 2 * i], '\n' .. have .. '\n', 1, true) then
      lost[#lost + 1] = i
    end
  end
  return lost
end

local function store(first, arg)
  for i = 1, #KEYS - first + 1 do
    local key, doc = KEYS[first + i - 1], ARGV[arg + 2 * i - 1]
    if doc == '' then
      redis.call('DEL', key)
    else
      redis.call('SET', key, doc, 'PX', ARGV[arg])
    end
  end
end

