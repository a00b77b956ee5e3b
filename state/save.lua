-- Saves the documents of one partition, all of them or none.
-- A document's first 36 bytes are its version (versionBytes in document.go).
-- KEYS[i]      a document's key
-- ARGV[1]      time to live, ms
-- ARGV[2*i]    the new document, empty to delete it
-- ARGV[2*i+1]  the versions it may replace, a line feed before, between and
--              after them; an empty one stands for "no document". The outcome's
--              own version is among them: a repeated call is not a conflict.
-- Returns the indexes of the documents that have another version: empty when saved.
local lost = {}
for i, key in ipairs(KEYS) do
  local have = redis.call('GETRANGE', key, 0, 35)
  if not string.find(ARGV[2 * i + 1], '\n' .. have .. '\n', 1, true) then
    lost[#lost + 1] = i
  end
end
if #lost > 0 then
  return lost
end
for i, key in ipairs(KEYS) do
  if ARGV[2 * i] == '' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, ARGV[2 * i], 'PX', ARGV[1])
  end
end
return lost
