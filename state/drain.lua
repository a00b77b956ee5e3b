-- Removes members from a set unless they joined again since they were read.
-- KEYS[1] set
-- ARGV    each member with the text of its last Join
-- Returns how many were removed.
local gone = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    gone = gone + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return gone
