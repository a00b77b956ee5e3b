-- Forgets an id of a delivery if it still belongs to that record.
-- KEYS[1] id of the delivery
-- ARGV[1] id of the record
-- Returns 1 if it was forgotten, else 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
