-- Releases a queue as it is, if the call that claimed it still owns it.
-- ARGV[2] owner, that call  [3] after how long others may claim it, ms
-- Returns 1 when nobody owns it now, 0 when somebody else did.
local owner = redis.call('HGET', lease, 'owner')
if owner == '' or not owner then
  return 1
end
if owner ~= ARGV[2] then
  return 0
end
local at = now()
redis.call('HSET', lease, 'owner', '', 'until', at + ARGV[3])
if ARGV[3] == '0' then
  wake(at)
else
  redis.call('ZADD', leases, at + ARGV[3], queue)
end
return 1
