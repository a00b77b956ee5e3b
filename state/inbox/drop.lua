-- Drops a record that waits.
-- KEYS[1] records  [2] waits  [3] timers  [4] dead  [5] where this call is remembered
-- ARGV[1] queue  [2] id  [3] how long to remember this call, s
-- Returns 1 when it was there, else 0; a repeated call the same.
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  return redis.call('EXISTS', KEYS[5])
end
stop_waiting(KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('SET', KEYS[5], '1', 'EX', ARGV[3])
return 1
