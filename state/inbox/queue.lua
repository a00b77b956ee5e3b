-- Goes before the scripts that work on a queue. Its keys, all in one partition:
--   queue    list of the ids of records, the head is at work
--   records  hash of id to record, of those in the queue and those that wait
--   waits    hash of id to '<since, ms> <due, ms, or 0> <1 for an operator, else 0>\n<about>'
--   lease    hash:
--     owner  the call that took the queue, '' for nobody: no two calls have the same
--     until  ms, when others may take it   id  the record at the head
--     tries  how many who had it were lost
--     wanted there if another process would have taken the queue
-- No lease at all: the queue is empty, or nobody took it yet. Of the partition:
--   leases  sorted set: each queue with records, at the time to look after it. That is
--           the truth; the stream only wakes somebody up, and may forget.
--   ready   stream of queues that somebody should take
--   timers  sorted set of '<queue>\n<id>' that wait, at the time when they are due
--   dead    sorted set of '<queue>\n<id>' that wait for an operator, since when
--   depth   number of records in all queues

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function take(lease, leases, queue, owner, id, tries, ends)
  redis.call('HSET', lease, 'owner', owner, 'id', id, 'tries', tries, 'until', ends)
  redis.call('ZADD', leases, ends, queue)
end

local function extend(lease, leases, queue, ends)
  redis.call('HSET', lease, 'until', ends)
  redis.call('ZADD', leases, ends, queue)
end

-- wake: whoever reads this and dies before the claim costs five seconds.
local function wake(ready, leases, queue, at)
  redis.call('XADD', ready, 'MAXLEN', '~', 1000, '*', 'queue', queue)
  redis.call('ZADD', leases, at + 5000, queue)
end

-- want notes that the owner would have taken the queue. Owners are a process, a dot and
-- the number of a call. Whoever has the queue then lets others at it behind the record at
-- work: else a process that has too much to do, and so is late with the end of each
-- turn, would be given the next one of all its queues, too, with others idle.
local function want(lease, owner)
  local has = redis.call('HGET', lease, 'owner')
  if has and has ~= '' and string.match(has, '^(.*)%.') ~= string.match(owner, '^(.*)%.') then
    redis.call('HSET', lease, 'wanted', 1)
  end
end

-- enqueue adds a record's id, and wakes somebody up if it is the first: of a longer
-- queue somebody knows.
local function enqueue(list, depth, ready, leases, queue, id, at)
  redis.call('INCR', depth)
  if redis.call('RPUSH', list, id) == 1 then
    wake(ready, leases, queue, at)
  end
end

-- head returns the id and the record at the head of a queue. An id without a record,
-- which nobody could work on, is dropped.
local function head(list, records, depth)
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
local function wait_for(waits, timers, dead, queue, id, due, operator, about, at)
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

local function stop_waiting(waits, timers, dead, queue, id)
  redis.call('HDEL', waits, id)
  redis.call('ZREM', timers, queue .. '\n' .. id)
  redis.call('ZREM', dead, queue .. '\n' .. id)
end

