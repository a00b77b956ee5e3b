-- Takes a record into a queue, or among those that wait, unless the delivery is known,
-- and gives the queue to the caller if nobody has it.
-- KEYS[1] queue  [2] records  [3] lease  [4] leases  [5] ready  [6] depth  [7] fence
-- KEYS[8] waits  [9] timers  [10] dead  [11 ...] what identifies the delivery
-- ARGV[1] queue  [2] id  [3] record  [4] owner, of this one call, '' not to take the queue
-- ARGV[5] length of the lease, ms  [6] how many records there may be, in the queue or
-- waiting, 0: any number, -1: none
-- ARGV[7] '' for the queue, else when a record that waits is due  [8] operator  [9] about
-- ARGV[10 ...] how long to remember what identifies the delivery, s
-- Returns {1, fence} taken, {2} kept, {3, id} a duplicate of that one, {4} full.
-- A repeated call of the same owner gives the same answer; of another one with the
-- same id, {2}: it is kept, and the queue is whose it was.
local again = false
for i = 11, #KEYS do
  local id = redis.call('GET', KEYS[i])
  if id and id ~= ARGV[2] then
    for j = 11, i - 1 do -- they are known from now on, too: this delivery may come again
      redis.call('SET', KEYS[j], id, 'EX', ARGV[j - 1])
    end
    return {3, id}
  end
  again = again or id
end
local at = now()
local waits = redis.call('HEXISTS', KEYS[8], ARGV[2]) == 1
local known = again or redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1
if known and not (waits and ARGV[7] ~= '') then
  local have = redis.call('HMGET', KEYS[3], 'id', 'owner', 'fence')
  if ARGV[4] == '' or have[1] ~= ARGV[2] or have[2] ~= ARGV[4] then
    return {2}
  end
  extend(KEYS[3], KEYS[4], ARGV[1], at + ARGV[5])
  return {1, tonumber(have[3])}
end
local length = 0
if ARGV[7] == '' then
  length = redis.call('LLEN', KEYS[1])
elseif not waits then
  length = redis.call('HLEN', KEYS[8])
end
if ARGV[6] ~= '0' and length >= tonumber(ARGV[6]) then
  return {4}
end
for i = 11, #KEYS do
  redis.call('SET', KEYS[i], ARGV[2], 'EX', ARGV[i - 1])
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if ARGV[7] ~= '' then
  wait_for(KEYS[8], KEYS[9], KEYS[10], ARGV[1], ARGV[2], ARGV[7], ARGV[8], ARGV[9], at)
  return {2}
end
if length > 0 or ARGV[4] == '' then
  if ARGV[4] ~= '' then
    want(KEYS[3], ARGV[4])
  end
  enqueue(KEYS[1], KEYS[6], KEYS[5], KEYS[4], ARGV[1], ARGV[2], at)
  return {2}
end
redis.call('INCR', KEYS[6])
redis.call('RPUSH', KEYS[1], ARGV[2])
local fence = redis.call('INCR', KEYS[7])
take(KEYS[3], KEYS[4], ARGV[1], fence, ARGV[4], ARGV[2], 0, at + ARGV[5])
return {1, fence}
