-- Wakes somebody up for a queue whose time has come.
-- KEYS[1] lease  [2] leases  [3] ready
-- ARGV[1] queue  [2] how far to look ahead, ms
-- ARGV[3] 1 to leave a queue alone that somebody has, though the lease ran out
-- Returns 1, or 0 when there is no need.
local at = now()
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not due or tonumber(due) > at + ARGV[2] then
  return 0
end
local have = redis.call('HMGET', KEYS[1], 'until', 'owner')
if have[1] and (tonumber(have[1]) > at or have[2] ~= '' and ARGV[3] == '1') then
  return 0
end
wake(KEYS[3], KEYS[2], ARGV[1], at)
return 1
