-- Saves documents and the journal of the turn at the head, all or nothing, if
-- the lane is still the caller's. A lease that ran out and that nobody took is.
-- KEYS[1] lease  [2] leases  [3] journal  then the documents' keys
-- ARGV[1] lane  [2] fence  [3] turn  [4] length of the lease, ms, 0 to leave it
-- ARGV[5] 1 to write the journal  [6] journal  [7...] the documents, see docs.lua
-- Returns {0} saved, {3} the lane is another's, {5, numbers of documents...}
-- these have another version.
local have = redis.call('HMGET', KEYS[1], 'fence', 'turn')
if have[1] ~= ARGV[2] or have[2] ~= ARGV[3] then
  return {3}
end
local lost = conflicts(4, 7, {5})
if #lost > 1 then
  return lost
end
store(4, 7)
if ARGV[5] == '1' then
  redis.call('SET', KEYS[3], ARGV[6])
end
if ARGV[4] ~= '0' then
  extend(KEYS[1], KEYS[2], ARGV[1], now() + ARGV[4])
end
return {0}
