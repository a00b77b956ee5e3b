-- Keeps a timer of a lane.
-- KEYS[1] the lane's timers  [2] timers of the partition  [3] where this call is remembered
-- ARGV[1] id  [2] timer  [3] when it is due, ms  [4] its name in the partition
-- ARGV[5] how many timers a lane may have  [6] how long to remember this call, s
-- Returns 1, or 0 when the lane has too many. A repeated call does not keep again
-- what became due meanwhile.
if redis.call('EXISTS', KEYS[3]) == 1 then
  return 1
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
redis.call('SET', KEYS[3], '1', 'EX', ARGV[6])
return 1
