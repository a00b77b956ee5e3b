-- Puts a member into a set, which lives on from now.
-- KEYS[1] the set, a hash of each member to how often it joined
-- ARGV[1] member  [2] time to live, ms
-- Returns how often it joined. A key that holds something else is deleted: nothing could
-- be added to it.
local kind = redis.call('TYPE', KEYS[1])
kind = kind.ok or kind
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', KEYS[1])
end
local n = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return n
