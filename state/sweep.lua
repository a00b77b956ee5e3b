-- Wakes somebody up for the lanes of a partition whose time has come, and says
-- which timers are due.
-- KEYS[1] leases  [2] ready  [3] depth  [4] timers
-- ARGV[1] 0 to leave the lanes alone  [2] how many lanes, and timers, at most
-- Returns {items waiting, due timers...}.
local at = now()
if ARGV[1] ~= '0' then
  for _, lane in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', at, 'LIMIT', 0, ARGV[2])) do
    wake(KEYS[2], KEYS[1], lane, at)
  end
end
local found = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', at, 'LIMIT', 0, ARGV[2])
table.insert(found, 1, tonumber(redis.call('GET', KEYS[3]) or 0))
return found
