-- Saves the documents of another partition than the record's, all of them or none, and
-- with them a note of what is saved in the record's partition next.
-- KEYS[1] note  then the documents' keys
-- ARGV[1] how long to keep the note, s  [2] n  [3 .. 2+n] names and values of the note
-- ARGV[3+n ...] the documents, see docs.lua
-- Returns the numbers of the documents that have another version: empty when saved.
local n = tonumber(ARGV[2])
local lost = conflicts(2, 3 + n, {})
if #lost > 0 then
  return lost
end
store(2, 3 + n)
redis.call('DEL', KEYS[1])
for i = 3, 2 + n, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return lost
