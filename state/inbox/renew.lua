-- Lengthens a lease, also one that ran out and that nobody took.
-- KEYS[1] lease  [2] leases
-- ARGV[1] queue  [2] owner  [3] length of the lease, ms
-- Returns 1, or 0 when the queue is another's.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then
  return 0
end
extend(KEYS[1], KEYS[2], ARGV[1], now() + ARGV[3])
return 1
