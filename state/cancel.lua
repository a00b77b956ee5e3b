-- Drops a timer of a lane.
-- KEYS[1] the lane's timers  [2] timers of the partition  [3] where this call is remembered
-- ARGV[1] id  [2] its name in the partition  [3] how long to remember this call, s
-- Returns 1 when it was there, else 0; a repeated call the same.
redis.call('ZREM', KEYS[2], ARGV[2])
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return redis.call('EXISTS', KEYS[3])
end
redis.call('SET', KEYS[3], '1', 'EX', ARGV[3])
return 1
