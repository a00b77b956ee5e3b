-- Claims a queue that has records and no owner.
-- ARGV[2] owner, unique to this call  [3] length of the lease, ms
-- Returns {} when there is nothing to claim, else {tries, 1 for a takeover, id, record, '<id>\n' and
-- what beside.lua kept, perhaps for another record, or ''}.
-- Repeated by the same owner: the same reply.
local at = now()
local have = redis.call('HMGET', lease, 'owner', 'until', 'tries')
local mine = have[1] == ARGV[2]
if not mine and have[1] and tonumber(have[2]) > at then
  return {}
end
local id, record = head()
if not id then
  give_up()
  return {}
end
local tries, over = tonumber(have[3] or 0), 0
if not mine and have[1] and have[1] ~= '' then
  tries, over = tries + 1, 1 -- the previous owner let the lease expire
end
take(ARGV[2], id, tries, at + ARGV[3])
return {tries, over, id, record, redis.call('HGET', lease, 'beside') or ''}
