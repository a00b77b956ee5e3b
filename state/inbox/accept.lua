-- Takes a record into a queue, or among those that wait, unless the delivery is known,
-- and gives the queue to the caller if nobody has it.
-- KEYS[1] queue  [2] records  [3] lease  [4] leases  [5] ready  [6] depth
-- KEYS[7] waits  [8] timers  [9] dead  [10 ...] what identifies the delivery
-- ARGV[1] queue  [2] id  [3] record  [4] owner, of this one call, '' not to take the queue
-- ARGV[5] length of the lease, ms  [6] how many records there may be, in the queue or
-- waiting, 0: any number, -1: none
-- ARGV[7] '' for the queue, else when a record that waits is due  [8] operator  [9] about
-- ARGV[10 ...] how long to remember what identifies the delivery, s
-- Returns {1} taken, {2} kept, {3, id} a duplicate of that one, {4} full.
-- A repeated call of the same owner gives the same answer; of another one with the
-- same id, {2}: it is kept, and the queue is whose it was.
local again = false
for i = 10, #KEYS do
  if not redis.call('SET', KEYS[i], ARGV[2], 'NX', 'EX', ARGV[i]) then
    local id = redis.call('GET', KEYS[i])
    if id ~= ARGV[2] then
      for j = 10, i - 1 do -- they are known from now on, too: this delivery may come again
        redis.call('SET', KEYS[j], id, 'EX', ARGV[j])
      end
      return {3, id}
    end
    again = true
  end
end

local function full()
  for i = 10, #KEYS do
    redis.call('DEL', KEYS[i])
  end
  return {4}
end

local at, most = now(), tonumber(ARGV[6])
if ARGV[7] ~= '' then
  local waits = redis.call('HEXISTS', KEYS[7], ARGV[2]) == 1
  if not waits then
    if again or redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then
      return {2}
    end
    if most ~= 0 and redis.call('HLEN', KEYS[7]) >= most then
      return full()
    end
  end
  for i = 10, #KEYS do -- one that is replaced is remembered from now on
    redis.call('EXPIRE', KEYS[i], ARGV[i])
  end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
  wait_for(KEYS[7], KEYS[8], KEYS[9], ARGV[1], ARGV[2], ARGV[7], ARGV[8], ARGV[9], at)
  return {2}
end
if again or redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) == 0 then
  local have = redis.call('HMGET', KEYS[3], 'id', 'owner')
  if ARGV[4] == '' or have[1] ~= ARGV[2] or have[2] ~= ARGV[4] then
    return {2}
  end
  extend(KEYS[3], KEYS[4], ARGV[1], at + ARGV[5])
  return {1}
end
local length = redis.call('RPUSH', KEYS[1], ARGV[2])
if most ~= 0 and length > most then
  redis.call('RPOP', KEYS[1])
  redis.call('HDEL', KEYS[2], ARGV[2])
  return full()
end
redis.call('INCR', KEYS[6])
if length == 1 and ARGV[4] ~= '' then
  take(KEYS[3], KEYS[4], ARGV[1], ARGV[4], ARGV[2], 0, at + ARGV[5])
  return {1}
end
if length == 1 then
  wake(KEYS[5], KEYS[4], ARGV[1], at)
elseif ARGV[4] ~= '' then
  want(KEYS[3], ARGV[4])
end
return {2}
