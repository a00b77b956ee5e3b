-- Puts a due record back at the end of its queue.
-- ARGV[2] id
-- Returns 1, or 0 when it is not waiting or no longer due.
local at = now()
local due = redis.call('ZSCORE', timers, queue .. '\n' .. ARGV[2])
if not due or tonumber(due) > at then
  return 0
end
stop_waiting(ARGV[2])
if redis.call('HEXISTS', records, ARGV[2]) == 0 then
  return 0
end
enqueue(ARGV[2], at)
return 1
