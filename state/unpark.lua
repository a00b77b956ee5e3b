-- Puts a parked turn back, at the end of its lane's queue.
-- KEYS[1] parked  [2] queue  [3] depth  [4] ready  [5] leases
-- ARGV[1] lane  [2] turn  [3] the item
-- Returns 1, or 0 when it is not parked.
if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then
  return 0
end
enqueue(KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[3], now())
return 1
