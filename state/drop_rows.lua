-- Removes the rows of an owner from a table.
-- KEYS[1] rows by id, a hash  [2] their ends, a sorted set of ids
-- ARGV[1] owner, the second line of a row
-- Returns how many there were.
local all, dropped = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #all, 2 do
  local owner = string.match(all[i + 1], '^[^\n]*\n([^\n]*)\n')
  if owner == ARGV[1] then
    redis.call('HDEL', KEYS[1], all[i])
    redis.call('ZREM', KEYS[2], all[i])
    dropped = dropped + 1
  end
end
return dropped
