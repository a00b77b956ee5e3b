-- Takes the item at the head off the queue, with all that its end changes, and
-- goes on to the next or gives the lane up: there is none, or another process wants it.
-- KEYS[1] queue  [2] lease  [3] leases  [4] journal  [5] depth  [6] answer  [7] parked
-- [8] ready  and then the documents' keys
-- ARGV[1] lane  [2] fence  [3] turn  [4] length of the lease, ms
-- ARGV[5] how long to keep the answer, s, 0: there is none  [6] answer
-- ARGV[7] the turn as parked, '' not to park it  [8...] the documents, see docs.lua
-- Returns {1} done and the lane is given up, {2, head, its turn} done and this is
-- next, {3} the lane is another's and the item is there, {4} the item is gone and
-- the lane is not the caller's, {5, numbers of documents...} these have another
-- version. A repeated call finds {2} again, and {4} instead of {1}.
local have = redis.call('HMGET', KEYS[2], 'fence', 'turn', 'wanted')
if have[1] ~= ARGV[2] then
  if have[2] == ARGV[3] then
    return {3}
  end
  return {4}
end
if have[2] == ARGV[3] then
  local lost = conflicts(9, 8, {5})
  if #lost > 1 then
    return lost
  end
  store(9, 8)
  if ARGV[5] ~= '0' then
    redis.call('SET', KEYS[6], ARGV[6], 'EX', ARGV[5])
  end
  if ARGV[7] ~= '' then
    redis.call('HSET', KEYS[7], ARGV[3], ARGV[7])
  end
  redis.call('LPOP', KEYS[1])
  redis.call('DECR', KEYS[5])
end
local head = redis.call('LINDEX', KEYS[1], 0)
if not head then
  redis.call('DEL', KEYS[2], KEYS[4])
  redis.call('ZREM', KEYS[3], ARGV[1])
  return {1}
end
if have[2] == ARGV[3] then
  redis.call('DEL', KEYS[4])
end
local turn = turn_of(head)
redis.call('HSET', KEYS[2], 'turn', turn, 'tries', 0)
if have[3] and have[2] == ARGV[3] then
  local at = now()
  redis.call('HSET', KEYS[2], 'fence', 0, 'owner', '', 'until', at)
  redis.call('HDEL', KEYS[2], 'wanted')
  wake(KEYS[8], KEYS[3], ARGV[1], at)
  return {1}
end
extend(KEYS[2], KEYS[3], ARGV[1], now() + ARGV[4])
return {2, head, turn}
