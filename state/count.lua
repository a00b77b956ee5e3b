-- Adds to a tally, which ends with its window. The first number begins the window.
-- KEYS[1] tally
-- ARGV[1] what to add, 0 only to read it  [2] window, ms
-- Returns the sum.
if ARGV[1] == '0' then
  return tonumber(redis.call('GET', KEYS[1]) or 0)
end
local sum = redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return sum
