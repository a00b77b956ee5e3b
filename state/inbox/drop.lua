-- Deletes a waiting record.
-- KEYS[11] remembers this call
-- ARGV[2] id  [3] how long to remember this call, s
-- Returns 1 if there was one, else 0. Repeated: the same reply.
if redis.call('HEXISTS', waits, ARGV[2]) == 0 then
  return redis.call('EXISTS', KEYS[11])
end
stop_waiting(ARGV[2])
redis.call('HDEL', records, ARGV[2])
unlist_thread()
redis.call('SET', KEYS[11], '1', 'EX', ARGV[3])
return 1
