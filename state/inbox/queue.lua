-- Comes before the scripts that work on a queue. They all start with these keys and have the
-- queue's name as ARGV[1]. Keys of the queue:
--   list     ids of its records; the head is being worked on
--   records  hash of id to record, for queued and waiting records
--   waits    hash of id to '<since, ms> <due, ms, or 0> <1 for an operator, else 0>\n<about>'
--   lease    hash:
--     owner  the call that claimed the queue, unique to that call; '' for none
--     until  ms, when others may claim it   id  the record at the head
--     tries  how many owners died
--     wanted present if another process wants the queue
--     beside '<id>\n' and what is kept beside that record, perhaps one that has left the head
--   threads set of the queues of its threads that have records; of one of these: that of the queue above it
-- Without a lease the queue is empty or was never claimed. Keys of the partition:
--   leases  sorted set of queues with records, by when to check them. This is the source of
--           truth; ready only wakes replicas and may lose names.
--   ready   list of queues to claim
--   depth   number of records in all queues
--   timers  sorted set of waiting '<queue>\n<id>', by when they are due
--   dead    sorted set of '<queue>\n<id>' that wait for an operator, by since when
local list, records, waits, lease, leases, ready, depth, timers, dead, threads = unpack(KEYS, 1, 10)
local queue = ARGV[1]
local is_thread = string.find(queue, '/queues/thread-', 1, true)

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function take(owner, id, tries, ends)
  redis.call('HSET', lease, 'owner', owner, 'id', id, 'tries', tries, 'until', ends)
  redis.call('ZADD', leases, ends, queue)
end

local function extend(ends)
  redis.call('HSET', lease, 'until', ends)
  redis.call('ZADD', leases, ends, queue)
end

-- list_thread and unlist_thread keep the set of threads when a record came and when one has gone.
local function list_thread()
  if is_thread then
    redis.call('SADD', threads, queue)
  end
end

local function unlist_thread()
  if is_thread and redis.call('EXISTS', records) == 0 then
    redis.call('SREM', threads, queue)
  end
end

-- give_up releases a queue without records to work on.
local function give_up()
  redis.call('DEL', lease)
  redis.call('ZREM', leases, queue)
  unlist_thread()
end

-- wake: if the reader dies before it claims the queue, that costs five seconds. The list holds a
-- thousand names; a sweep finds the queues that do not fit.
local function wake(at)
  redis.call('ZADD', leases, at + 5000, queue)
  if redis.call('RPUSH', ready, queue) > 1000 then
    redis.call('LPOP', ready)
  end
end

-- enqueue adds a record's id. It wakes a replica for the first one only: a longer queue is already
-- known.
local function enqueue(id, at)
  redis.call('INCR', depth)
  if redis.call('RPUSH', list, id) == 1 then
    wake(at)
  end
end

-- head returns the id and the record at the head of the queue. It drops ids without a record,
-- because nobody could work on them.
local function head()
  while true do
    local id = redis.call('LINDEX', list, 0)
    if not id then
      return nil
    end
    local record = redis.call('HGET', records, id)
    if record then
      return id, record
    end
    redis.call('LPOP', list)
    redis.call('DECR', depth)
  end
end

-- wait_for stores what a record waits for. A due of '0' means that it never returns on its own.
local function wait_for(id, due, operator, about, at)
  local member = queue .. '\n' .. id
  local since = string.format('%.0f', at)
  redis.call('HSET', waits, id, since .. ' ' .. due .. ' ' .. operator .. '\n' .. about)
  redis.call('ZREM', timers, member)
  redis.call('ZREM', dead, member)
  if due ~= '0' then
    redis.call('ZADD', timers, due, member)
  end
  if operator == '1' then
    redis.call('ZADD', dead, since, member)
  end
end

local function stop_waiting(id)
  redis.call('HDEL', waits, id)
  redis.call('ZREM', timers, queue .. '\n' .. id)
  redis.call('ZREM', dead, queue .. '\n' .. id)
end

