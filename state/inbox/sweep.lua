-- Finds the queues of some partitions that need a check and the waiting records that are due.
-- KEYS  for each partition: leases, depth, timers
-- ARGV[1] limit of queues, and of records, for each partition
-- ARGV[2] how far to look ahead for queues, ms
-- Returns for each partition {records in queues, {queues...}, {'<queue>\n<id>'...}, ms until
-- something is due there, at most an hour}.
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
local swept = {}
for p = 1, #KEYS / 3 do
  local leases, depth, timers = KEYS[3 * p - 2], KEYS[3 * p - 1], KEYS[3 * p]
  local rest = 3600000
  local function due(set, till)
    local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
    if not first[2] then
      return {}
    end
    rest = math.max(0, math.min(rest, first[2] - at))
    if tonumber(first[2]) > till then
      return {}
    end
    return redis.call('ZRANGEBYSCORE', set, '-inf', till, 'LIMIT', 0, ARGV[1])
  end
  local queues, records = due(leases, at + ARGV[2]), due(timers, at)
  swept[p] = {tonumber(redis.call('GET', depth) or 0), queues, records, math.ceil(rest)}
end
return swept
