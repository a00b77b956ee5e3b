-- Takes members out of a set that did not join again since they were read.
-- KEYS[1] the set
-- ARGV    each member and what its last Join made up
-- Returns how many were taken out.
local gone = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    gone = gone + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return gone
