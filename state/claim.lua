-- Takes a lane that has work and that nobody has.
-- KEYS[1] queue  [2] lease  [3] leases  [4] fence  [5] journal
-- ARGV[1] lane  [2] owner, of this one call  [3] length of the lease, ms
-- Returns {} when there is nothing to take, else
-- {fence, tries, head, its turn, journal or nil}.
-- A repeated call of the same owner gives the same answer.
local at = now()
local have = redis.call('HMGET', KEYS[2], 'owner', 'until', 'fence', 'tries')
local mine = have[1] == ARGV[2]
if not mine and have[2] and tonumber(have[2]) > at then
  return {}
end
local head = redis.call('LINDEX', KEYS[1], 0)
if not head then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[1])
  return {}
end
local fence, tries = tonumber(have[3]), tonumber(have[4] or 0)
if not mine then
  if fence and fence > 0 then
    tries = tries + 1 -- who had it let it run out
  end
  fence = redis.call('INCR', KEYS[4])
end
local turn = turn_of(head)
take(KEYS[2], KEYS[3], ARGV[1], fence, ARGV[2], turn, tries, at + ARGV[3])
return {fence, tries, head, turn, redis.call('GET', KEYS[5])}
