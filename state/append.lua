-- Appends lines to a log, if none of them is in it and its last line is still the one that they go on from. The lines are
-- in the order of their scores, by this server's clock, so what goes early is always the beginning.
-- KEYS[1] log, lines by time, a sorted set  [2] digests of its newest lines, a sorted set  [3] its end, a string
-- ARGV[1] the last line, empty if there is none  [2] how long to keep lines, µs  [3] how many of the oldest go
--   [4] most digests  [5] the new end; then for each line: when it is from, Unix µs; its digest; the line
-- Returns 1, or 0 if there is another last line, or if one of these is in the log already.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if (last[1] or '') ~= ARGV[1] then
  return 0
end
for i = 6, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[2], ARGV[i + 1]) then
    return 0
  end
end
local at = tonumber(last[2] or 0)
for i = 6, #ARGV, 3 do
  at = math.max(at + 1, math.min(tonumber(ARGV[i]), now))
  local score = string.format('%.0f', at)
  redis.call('ZADD', KEYS[1], score, ARGV[i + 2])
  redis.call('ZADD', KEYS[2], score, ARGV[i + 1])
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[4]) - 1)
local keep = string.format('%.0f', tonumber(ARGV[2]) / 1000)
redis.call('PEXPIRE', KEYS[1], keep)
redis.call('PEXPIRE', KEYS[2], keep)
redis.call('SET', KEYS[3], ARGV[5], 'PX', keep)
if tonumber(ARGV[3]) > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, tonumber(ARGV[3]) - 1)
end
return 1
