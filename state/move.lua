-- Moves members of a set to another.
-- KEYS[1] from  [2] to
-- ARGV[1] time to live of the other, ms  [2...] members
-- Returns how many were moved. A repeated call moves those that came back meanwhile.
local moved = 0
for i = 2, #ARGV do
  moved = moved + redis.call('SMOVE', KEYS[1], KEYS[2], ARGV[i])
end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return moved
