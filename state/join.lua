-- Puts a member into a set, which lives on from now.
-- KEYS[1] the set
-- ARGV[1] member  [2] time to live, ms
-- Returns 1 when it was not there, else 0.
local added = redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return added
