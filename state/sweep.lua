-- Wakes somebody up for the lanes of some partitions whose time has come, and
-- says which timers are due.
-- KEYS  for each partition: leases, ready, depth, timers
-- ARGV[1] how many lanes, and timers, of each at most
-- ARGV[2...] for each partition: 0 to leave its lanes alone
-- Returns for each partition {items waiting, due timers...}.
local at = now()
local swept = {}
for p = 1, #KEYS / 4 do
  local leases, ready, depth, timers = KEYS[4 * p - 3], KEYS[4 * p - 2], KEYS[4 * p - 1], KEYS[4 * p]
  if ARGV[p + 1] ~= '0' then
    for _, lane in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', at, 'LIMIT', 0, ARGV[1])) do
      wake(ready, leases, lane, at)
    end
  end
  local found = redis.call('ZRANGEBYSCORE', timers, '-inf', at, 'LIMIT', 0, ARGV[1])
  table.insert(found, 1, tonumber(redis.call('GET', depth) or 0))
  swept[p] = found
end
return swept
