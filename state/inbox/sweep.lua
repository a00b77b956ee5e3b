-- Finds the queues of some partitions that need a check and the waiting records that are due.
-- KEYS  for each partition: leases, depth, timers
-- ARGV[1] limit of queues, and of records, for each partition
-- ARGV[2] how far to look ahead for queues, ms
-- Returns for each partition {records in queues, {queues...}, {'<queue>\n<id>'...}, ms until
-- something is due there, at most an hour}.
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
local rest
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
local partitions, depths = #KEYS / 3, {}
for p = 1, partitions do
  depths[p] = KEYS[3 * p - 1]
end
local records = redis.call('MGET', unpack(depths))
local swept = {}
local together = 8 -- most partitions are empty: one look for several tells
for first = 1, partitions, together do
  local last, sets = math.min(first + together - 1, partitions), {}
  for p = first, last do
    sets[#sets + 1] = KEYS[3 * p - 2]
    sets[#sets + 1] = KEYS[3 * p]
  end
  local some = redis.call('EXISTS', unpack(sets)) > 0
  for p = first, last do
    rest = 3600000
    local queues, timers = {}, {}
    if some then
      queues, timers = due(KEYS[3 * p - 2], at + ARGV[2]), due(KEYS[3 * p], at)
    end
    swept[p] = {tonumber(records[p] or 0), queues, timers, math.ceil(rest)}
  end
end
return swept
