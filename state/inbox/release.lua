-- Gives a queue up as it is, if it is still that of the call which took it.
-- ARGV[2] owner, of that call  [3] after how long others may take it, ms
-- Returns 1 when it is nobody's now, 0 when it was another's.
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
