-- Puts a row into a table, and removes rows whose time is over, and the oldest beyond the most.
-- KEYS[1] rows by id, a hash  [2] their ends, a sorted set of ids
-- ARGV[1] id  [2] row  [3] its end, Unix ms  [4] now, Unix ms  [5] most rows
-- Returns 1.
local function drop(ids)
  if #ids > 0 then
    redis.call('HDEL', KEYS[1], unpack(ids))
    redis.call('ZREM', KEYS[2], unpack(ids))
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
drop(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[4], 'LIMIT', 0, 100))
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[5])
if over > 0 then
  drop(redis.call('ZRANGE', KEYS[2], 0, math.min(over, 100) - 1))
end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if last[2] then
  redis.call('PEXPIREAT', KEYS[1], last[2])
  redis.call('PEXPIREAT', KEYS[2], last[2])
end
return 1
