-- Takes a queue that has records and that nobody has.
-- KEYS[1] queue  [2] records  [3] lease  [4] leases  [5] depth
-- ARGV[1] queue  [2] owner, of this one call  [3] length of the lease, ms
-- Returns {} when there is nothing to take, else
-- {tries, 1 if it was taken over, id, record}.
-- A repeated call of the same owner gives the same answer.
local at = now()
local have = redis.call('HMGET', KEYS[3], 'owner', 'until', 'tries')
local mine = have[1] == ARGV[2]
if not mine and have[1] and tonumber(have[2]) > at then
  return {}
end
local id, record = head(KEYS[1], KEYS[2], KEYS[5])
if not id then
  redis.call('DEL', KEYS[3])
  redis.call('ZREM', KEYS[4], ARGV[1])
  return {}
end
local tries, over = tonumber(have[3] or 0), 0
if not mine and have[1] and have[1] ~= '' then
  tries, over = tries + 1, 1 -- who had it let it run out
end
take(KEYS[3], KEYS[4], ARGV[1], ARGV[2], id, tries, at + ARGV[3])
return {tries, over, id, record}
