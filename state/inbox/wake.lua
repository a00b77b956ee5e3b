-- Puts a waiting record back at the end of its queue.
-- KEYS[11] remembers this call
-- ARGV[2] id  [3] sha1 that the record must have, '' for any
-- ARGV[4] 1 to write the record  [5] record  [6] how long to remember this call, s
-- Returns 1 done, 0 it does not wait or its record differs. Repeated: 1 again.
local record = redis.call('HGET', records, ARGV[2])
local there = record and redis.call('HEXISTS', waits, ARGV[2]) == 1
if there and ARGV[3] ~= '' and redis.sha1hex(record) ~= ARGV[3] then
  there = false
end
if not there and redis.call('EXISTS', KEYS[11]) == 0 then
  return 0
end
if there then
  redis.call('SET', KEYS[11], '1', 'EX', ARGV[6])
  if ARGV[4] == '1' then
    redis.call('HSET', records, ARGV[2], ARGV[5])
  end
  stop_waiting(ARGV[2])
  enqueue(ARGV[2], now())
end
return 1
