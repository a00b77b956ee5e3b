-- Goes before the scripts that work on a queue. All of them have these keys first, and as
-- ARGV[1] the queue's name. What is only the queue's:
--   list     the ids of its records, the head is at work
--   records  hash of id to record, of those in the queue and those that wait
--   waits    hash of id to '<since, ms> <due, ms, or 0> <1 for an operator, else 0>\n<about>'
--   lease    hash:
--     owner  the call that took the queue, '' for nobody: no two calls have the same
--     until  ms, when others may take it   id  the record at the head
--     tries  how many who had it were lost
--     wanted there if another process would have taken the queue
-- No lease at all: the queue is empty, or nobody took it yet. What the partition shares:
--   leases  sorted set: each queue with records, at the time to look after it. That is
--           the truth; the next one only wakes somebody up, and may forget.
--   ready   list of queues that somebody should take
--   depth   number of records in all queues
--   timers  sorted set of '<queue>\n<id>' that wait, at the time when they are due
--   dead    sorted set of '<queue>\n<id>' that wait for an operator, since when
local list, records, waits, lease, leases, ready, depth, timers, dead = unpack(KEYS, 1, 9)
local queue = ARGV[1]

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

-- give_up is for a queue without records.
local function give_up()
  redis.call('DEL', lease)
  redis.call('ZREM', leases, queue)
end

-- wake: whoever reads this and dies before the claim costs five seconds. A sweep finds
-- what a list of a thousand has no room for.
local function wake(at)
  if redis.call('RPUSH', ready, queue) > 1000 then
    redis.call('LPOP', ready)
  end
  redis.call('ZADD', leases, at + 5000, queue)
end

-- enqueue adds a record's id, and wakes somebody up if it is the first: of a longer
-- queue somebody knows.
local function enqueue(id, at)
  redis.call('INCR', depth)
  if redis.call('RPUSH', list, id) == 1 then
    wake(at)
  end
end

-- head returns the id and the record at the head of the queue. An id without a record,
-- which nobody could work on, is dropped.
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

-- wait_for keeps what the record of an id waits for. Due is '0' for never by itself.
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

