-- Wakes a replica for a queue that is due.
-- ARGV[2] how far to look ahead, ms
-- ARGV[3] 1 to leave a queue alone whose lease expired but has an owner
-- Returns 1, or 0 when there is no need.
local at = now()
local due = redis.call('ZSCORE', leases, queue)
if not due or tonumber(due) > at + ARGV[2] then
  return 0
end
local have = redis.call('HMGET', lease, 'until', 'owner')
if have[1] and (tonumber(have[1]) > at or have[2] ~= '' and ARGV[3] == '1') then
  return 0
end
wake(at)
return 1
