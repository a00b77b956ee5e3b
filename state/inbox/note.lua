-- Saves the documents of another partition than the record's, all of them or none, and
-- with them a note of what is saved in the record's partition next.
-- KEYS[1] note  then the documents' keys
-- ARGV[1] how long to keep the note, s  [2] note  [3...] the documents, see docs.lua
-- Returns the numbers of the documents that have another version: empty when saved.
local lost = conflicts(2, 3, {})
if #lost == 0 then
  store(2, 3)
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
end
return lost
