-- Makes an id of a delivery known, unless it is.
-- KEYS[1] id of the delivery
-- ARGV[1] id of the record  [2] how long to remember it, s
-- Returns 1 if it was not known, else 0.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then
  return 1
end
return 0
