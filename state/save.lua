-- Saves the documents of one partition, all of them or none.
-- KEYS  the documents' keys
-- ARGV  the documents, see docs.lua
-- Returns the numbers of the documents that have another version: empty when saved.
local lost = conflicts(1, 1, {})
if #lost == 0 then
  store(1, 1)
end
return lost
