-- Puts a record that waits back, at the end of its queue, with documents of its partition.
-- KEYS[1] queue  [2] records  [3] waits  [4] timers  [5] dead  [6] depth  [7] ready
-- KEYS[8] leases  [9] where this call is remembered  then the documents' keys
-- ARGV[1] queue  [2] id  [3] sha1 of the record as it has to be, '' for any
-- ARGV[4] 1 to write the record  [5] record  [6] how long to remember this call, s
-- ARGV[7...] the documents, see docs.lua
-- Returns {1} done, {0} it does not wait or is another record, {5, numbers of
-- documents...} these have another version. A repeated call finds {1} again.
local record = redis.call('HGET', KEYS[2], ARGV[2])
local waits = record and redis.call('HEXISTS', KEYS[3], ARGV[2]) == 1
if waits and ARGV[3] ~= '' and redis.sha1hex(record) ~= ARGV[3] then
  waits = false
end
if not waits and redis.call('EXISTS', KEYS[9]) == 0 then
  return {0}
end
local lost = conflicts(10, 7, {5})
if #lost > 1 then
  return lost
end
store(10, 7)
if waits then
  redis.call('SET', KEYS[9], '1', 'EX', ARGV[6])
  if ARGV[4] == '1' then
    redis.call('HSET', KEYS[2], ARGV[2], ARGV[5])
  end
  stop_waiting(KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[2])
  enqueue(KEYS[1], KEYS[6], KEYS[7], KEYS[8], ARGV[1], ARGV[2], now())
end
return {1}
