-- Writes a record that waits.
-- KEYS[1] records  [2] waits
-- ARGV[1] id  [2] sha1 of the record as it has to be, '' for any  [3] record
-- Returns 1 when it is written, also by a call before, or 0: it does not wait or is
-- another record.
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
  return 0
end
if record == ARGV[3] then
  return 1
end
if ARGV[2] ~= '' and redis.sha1hex(record) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
