-- Saves documents and the record at the head, all or nothing, and renews the lease, if the
-- caller still owns the queue. It does even after the lease expired, until somebody claims it.
-- KEYS[11 ...] document keys
-- ARGV[2] owner  [3] id, '' for any record at the head
-- ARGV[4] length of the lease, ms, 0 not to renew it
-- ARGV[5] 1 to write the record  [6] record  [7] 1 to reset tries
-- ARGV[8 ...] documents, see docs.lua
-- Returns {0} saved, {3} another owner has the queue, {5, document numbers...} these have
-- another version.
local have = redis.call('HMGET', lease, 'owner', 'id', 'tries')
if have[1] ~= ARGV[2] or ARGV[3] ~= '' and have[2] ~= ARGV[3] then
  return {3}
end
local lost = conflicts(11, 8, {5})
if #lost > 1 then
  return lost
end
store(11, 8)
if ARGV[5] == '1' then
  redis.call('HSET', records, ARGV[3], ARGV[6])
end
if ARGV[7] == '1' and have[3] ~= '0' then
  redis.call('HSET', lease, 'tries', 0)
end
if ARGV[4] ~= '0' then
  extend(now() + ARGV[4])
end
return {0}
