-- Makes a timer that is due an item of its lane.
-- KEYS[1] the lane's timers  [2] timers of the partition
-- KEYS[3] queue  [4] depth  [5] ready  [6] leases
-- ARGV[1] lane  [2] id  [3] its name in the partition
-- Returns 1, or 0 when it is not there, or not due any more.
local at = now()
local due = redis.call('ZSCORE', KEYS[2], ARGV[3])
if not due or tonumber(due) > at then
  return 0
end
local timer = redis.call('HGET', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[3])
if not timer then
  return 0
end
local owner_ends = string.find(timer, '\n', 1, true)
local due_ends = string.find(timer, '\n', owner_ends + 1, true)
local item = '1 ' .. ARGV[2] .. ' ' .. string.format('%.0f', at) .. '\n' .. string.sub(timer, due_ends + 1)
enqueue(KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], item, at)
return 1
