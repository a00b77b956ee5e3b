-- Goes before the scripts that write documents. Theirs are the KEYS from first
-- on, and from ARGV[arg] on
--   ARGV[arg]            time to live, ms
--   ARGV[arg + 2*i - 1]  the i-th new document, empty to delete it
--   ARGV[arg + 2*i]      the versions it may replace, a line feed before, between
--                        and after them; an empty one stands for "no document".
--                        The version that the write leaves is among them: a repeated
--                        call is not a conflict.
-- A document's first 36 bytes are its version (versionBytes in scope.go).

-- conflicts adds the numbers of the documents that have another version to lost.
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

