-- Puts a record that is due back at the end of its queue.
-- KEYS[1] queue  [2] records  [3] waits  [4] timers  [5] dead  [6] depth  [7] ready  [8] leases
-- ARGV[1] queue  [2] id
-- Returns 1, or 0 when it does not wait, or is not due any more.
local at = now()
local due = redis.call('ZSCORE', KEYS[4], ARGV[1] .. '\n' .. ARGV[2])
if not due or tonumber(due) > at then
  return 0
end
stop_waiting(KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[2])
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  return 0
end
enqueue(KEYS[1], KEYS[6], KEYS[7], KEYS[8], ARGV[1], ARGV[2], at)
return 1
