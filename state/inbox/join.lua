-- Takes the records that directly follow the one at the head off the queue, in one step with a save of
-- that record, which has them from now on.
-- ARGV[2] owner  [3] id  [4] record  [5 ...] ids of those that follow, in order
-- Returns 1 done, 0 another owner has the queue, 2 something else follows and nothing was done.
-- Repeated: 1 again.
local have = redis.call('HMGET', lease, 'owner', 'id')
if have[1] ~= ARGV[2] or have[2] ~= ARGV[3] then
  return 0
end
if redis.call('HGET', records, ARGV[3]) == ARGV[4] then
  return 1
end
for i = 5, #ARGV do
  if redis.call('LINDEX', list, i - 4) ~= ARGV[i] then
    return 2
  end
end
redis.call('LTRIM', list, #ARGV - 4, -1)
redis.call('LSET', list, 0, ARGV[3])
redis.call('HDEL', records, unpack(ARGV, 5))
redis.call('DECRBY', depth, #ARGV - 4)
redis.call('HSET', records, ARGV[3], ARGV[4])
return 1
