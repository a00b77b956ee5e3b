-- Takes the record at the head off the queue and saves everything else that ends with it.
-- Then moves on to the next record, or gives up the queue if it is empty or another process
-- wants it.
-- KEYS[11] answer  [12 ...] document keys
-- ARGV[2] owner  [3] id  [4] length of the lease, ms
-- ARGV[5] how long to keep the answer, s, 0: no answer  [6] answer
-- ARGV[7] '' when the record is done, else when it is due  [8] operator  [9] about
-- ARGV[10] 1 to write the record  [11] record  [12 ...] documents, see docs.lua
-- Returns {1} done, queue given up, {2, id, record, how many follow it} done, this is next, {3} another owner has
-- the queue and the record is still there, {4} the record is gone and the caller does not
-- own the queue, {5, document numbers...} these have another version.
-- Repeated: {2} again, {4} instead of {1}.
local have = redis.call('HMGET', lease, 'owner', 'id', 'wanted')
if have[1] ~= ARGV[2] then
  if have[2] == ARGV[3] then
    return {3}
  end
  return {4}
end
local first = have[2] == ARGV[3]
if first then
  local lost = conflicts(12, 12, {5})
  if #lost > 1 then
    return lost
  end
  store(12, 12)
  if ARGV[5] ~= '0' then
    redis.call('SET', KEYS[11], ARGV[6], 'EX', ARGV[5])
  end
  redis.call('LPOP', list)
  redis.call('DECR', depth)
  if ARGV[7] == '' then
    redis.call('HDEL', records, ARGV[3])
  else
    if ARGV[10] == '1' then
      redis.call('HSET', records, ARGV[3], ARGV[11])
    end
    wait_for(ARGV[3], ARGV[7], ARGV[8], ARGV[9], now())
  end
end
local id, record = head()
if not id then
  give_up()
  return {1}
end
local at = now()
if have[3] and first then
  redis.call('HDEL', lease, 'wanted')
  redis.call('HSET', lease, 'owner', '', 'id', id, 'tries', 0, 'until', at)
  wake(at)
  return {1}
end
take(ARGV[2], id, 0, at + ARGV[4])
return {2, id, record, redis.call('LLEN', list) - 1}
