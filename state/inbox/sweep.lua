-- Says which queues of some partitions somebody has to look after, and which records
-- that wait are due.
-- KEYS  for each partition: leases, depth, timers
-- ARGV[1] how many queues, and records, of each at most
-- ARGV[2] how far to look ahead for queues, ms
-- Returns for each partition {records in queues, {queues...}, {'<queue>\n<id>'...}, ms until
-- something is to be done there, an hour at most}.
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
local swept = {}
for p = 1, #KEYS / 3 do
  local leases, depth, timers = KEYS[3 * p - 2], KEYS[3 * p - 1], KEYS[3 * p]
  local rest = 3600000
  for _, set in ipairs({leases, timers}) do
    local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
    if first[2] then
      rest = math.max(0, math.min(rest, first[2] - at))
    end
  end
  swept[p] = {
    tonumber(redis.call('GET', depth) or 0),
    redis.call('ZRANGEBYSCORE', leases, '-inf', at + ARGV[2], 'LIMIT', 0, ARGV[1]),
    redis.call('ZRANGEBYSCORE', timers, '-inf', at, 'LIMIT', 0, ARGV[1]),
    math.ceil(rest),
  }
end
return swept
