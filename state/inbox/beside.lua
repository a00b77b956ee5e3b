-- Keeps something beside the record at the head, if the caller still owns the queue. The lease has
-- it, so it goes with the queue's last record at the latest.
-- ARGV[2] owner  [3] id  [4] what to keep
-- Returns 1 when kept, 0 when another owner has the queue.
local have = redis.call('HMGET', lease, 'owner', 'id')
if have[1] ~= ARGV[2] or have[2] ~= ARGV[3] then
  return 0
end
redis.call('HSET', lease, 'beside', ARGV[3] .. '\n' .. ARGV[4])
return 1
