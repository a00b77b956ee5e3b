-- Takes an item into a lane's queue unless the delivery is known, and gives the
-- lane to the caller if nobody has it.
-- KEYS[1] queue  [2] lease  [3] leases  [4] ready  [5] depth  [6] fence
-- KEYS[7 .. 6+n] what identifies the delivery  then the documents' keys
-- ARGV[1] lane  [2] turn  [3] body  [4] owner, of this one call, '' not to take the lane
-- ARGV[5] length of the lease, ms  [6] how long the queue may get, 0: any length
-- ARGV[7] n  [8 .. 7+n] how long to remember it, s  then the documents, see docs.lua
-- Returns {1, fence, accepted in ms} taken, {2} queued, {3, turn} a duplicate of
-- that turn, {4} full, {5, numbers of documents...} these have another version.
-- A repeated call of the same owner gives the same answer; of another one with the
-- same turn, {2}: it is kept, and the lane is whose it was.
local n = tonumber(ARGV[7])
local again = false
for i = 7, 6 + n do
  local turn = redis.call('GET', KEYS[i])
  if turn and turn ~= ARGV[2] then
    for j = 7, i - 1 do -- they are known from now on, too: this delivery may come again
      redis.call('SET', KEYS[j], turn, 'EX', ARGV[j + 1])
    end
    return {3, turn}
  end
  again = again or turn
end
local at = now()
local ends = at + ARGV[5]
if again then
  local have = redis.call('HMGET', KEYS[2], 'turn', 'owner', 'fence')
  if ARGV[4] == '' or have[1] ~= ARGV[2] or have[2] ~= ARGV[4] then
    return {2}
  end
  extend(KEYS[2], KEYS[3], ARGV[1], ends)
  return {1, tonumber(have[3]), at}
end
local length = redis.call('LLEN', KEYS[1])
if ARGV[6] ~= '0' and length >= tonumber(ARGV[6]) then
  return {4}
end
local lost = conflicts(7 + n, 8 + n, {5})
if #lost > 1 then
  return lost
end
store(7 + n, 8 + n)
for i = 7, 6 + n do
  redis.call('SET', KEYS[i], ARGV[2], 'EX', ARGV[i + 1])
end
local item = '1 ' .. ARGV[2] .. ' ' .. string.format('%.0f', at) .. '\n' .. ARGV[3]
if length > 0 or ARGV[4] == '' then
  if ARGV[4] ~= '' then
    want(KEYS[2], ARGV[4])
  end
  enqueue(KEYS[1], KEYS[5], KEYS[4], KEYS[3], ARGV[1], item, at)
  return {2}
end
redis.call('INCR', KEYS[5])
redis.call('RPUSH', KEYS[1], item)
local fence = redis.call('INCR', KEYS[6])
take(KEYS[2], KEYS[3], ARGV[1], fence, ARGV[4], ARGV[2], 0, ends)
return {1, fence, at}
