-- Adds a record to a queue, or to the waiting records, unless the delivery is already known.
-- Claims the queue for the caller if nobody has it.
-- KEYS[11 ...] ids of the delivery
-- ARGV[2] id  [3] record  [4] owner, unique to this call, '' not to claim the queue
-- ARGV[5] length of the lease, ms  [6] most records in the queue, or waiting, 0: no limit,
-- -1: refuse the record
-- ARGV[7] '' for the queue, else when a waiting record is due  [8] operator  [9] about
-- ARGV[10 ...] how long to remember each id of the delivery, s
-- Returns {1} claimed, {2} kept, {3, id} duplicate of that record, {4} full.
-- Repeated by the same owner: the same reply. By another owner with the same id: {2}, the
-- record is kept and the queue stays with its owner.
local id, record, owner, most, due = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6]), ARGV[7]
local again = false
for i = 11, #KEYS do
  if not redis.call('SET', KEYS[i], id, 'NX', 'EX', ARGV[i - 1]) then
    local first = redis.call('GET', KEYS[i])
    if first ~= id then
      for j = 11, i - 1 do -- remember these too: this delivery may come again
        redis.call('SET', KEYS[j], first, 'EX', ARGV[j - 1])
      end
      return {3, first}
    end
    again = true
  end
end

local function full()
  for i = 11, #KEYS do
    redis.call('DEL', KEYS[i])
  end
  return {4}
end

-- crowded reports whether too many records wait, without the dead letters among them, which only an
-- operator ends.
local function crowded()
  local n = 0
  for _, wait in ipairs(redis.call('HVALS', waits)) do
    if not string.find(wait, '^%d+ %d+ 1\n') then
      n = n + 1
    end
  end
  return n >= most
end

local at = now()
if due ~= '' then
  if redis.call('HEXISTS', waits, id) == 0 then
    if again or redis.call('HEXISTS', records, id) == 1 then
      return {2}
    end
    if most ~= 0 and crowded() then
      return full()
    end
  end
  for i = 11, #KEYS do -- a replacement is remembered from now on
    redis.call('EXPIRE', KEYS[i], ARGV[i - 1])
  end
  redis.call('HSET', records, id, record)
  list_thread()
  wait_for(id, due, ARGV[8], ARGV[9], at)
  return {2}
end
if again or redis.call('HSETNX', records, id, record) == 0 then
  local have = redis.call('HMGET', lease, 'id', 'owner')
  if owner == '' or have[1] ~= id or have[2] ~= owner then
    return {2}
  end
  extend(at + ARGV[5])
  return {1}
end
local length = redis.call('RPUSH', list, id)
if most ~= 0 and length > most then
  redis.call('RPOP', list)
  redis.call('HDEL', records, id)
  return full()
end
redis.call('INCR', depth)
list_thread()
if length == 1 and owner ~= '' then
  take(owner, id, 0, at + ARGV[5])
  return {1}
end
if length == 1 then
  wake(at)
elseif owner ~= '' then
  -- An owner is a process, a dot and a call number. When another process has the queue, ask it to
  -- let others claim the queue after the current record. Otherwise an overloaded process, which
  -- finishes turns late, would also take the next record of all its queues while other processes
  -- are idle.
  local has = redis.call('HGET', lease, 'owner')
  if has and has ~= '' and string.match(has, '^(.*)%.') ~= string.match(owner, '^(.*)%.') then
    redis.call('HSET', lease, 'wanted', 1)
  end
end
return {2}
