-- Saves documents of another partition than the record's, all or nothing, together with a
-- note of what will be saved next in the record's partition.
-- KEYS[1] note  [2 ...] document keys
-- ARGV[1] how long to keep the note, s  [2] note  [3 ...] documents, see docs.lua
-- Returns the numbers of the documents that have another version; empty when saved. An earlier try of the
-- same save has left this very note: others may have saved the documents since.
if redis.call('GET', KEYS[1]) == ARGV[2] then return {} end
local lost = conflicts(2, 3, {})
if #lost == 0 then
  store(2, 3)
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
end
return lost
