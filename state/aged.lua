-- Counts the lines of a log that are too old, by this server's clock.
-- KEYS[1] log, lines by time, a sorted set
-- ARGV[1] how long to keep lines, µs
-- Returns how many there are.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
return redis.call('ZCOUNT', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[1])))
