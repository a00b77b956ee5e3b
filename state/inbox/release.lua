-- Gives a queue up as it is, if it is still that of the call which took it.
-- KEYS[1] lease  [2] leases  [3] ready
-- ARGV[1] queue  [2] owner, of that call  [3] after how long others may take it, ms
-- Returns 1 when it is nobody's now, 0 when it was another's.
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner == '' or not owner then
  return 1
end
if owner ~= ARGV[2] then
  return 0
end
local at = now()
redis.call('HSET', KEYS[1], 'owner', '', 'until', at + ARGV[3])
if ARGV[3] == '0' then
  wake(KEYS[3], KEYS[2], ARGV[1], at)
else
  redis.call('ZADD', KEYS[2], at + ARGV[3], ARGV[1])
end
return 1
