-- Saves the documents of one partition, all or nothing.
-- KEYS  document keys
-- ARGV  documents, see docs.lua
-- Returns the numbers of the documents that have another version; empty when saved.
local lost = conflicts(1, 1, {})
if #lost == 0 then
  store(1, 1)
end
return lost
