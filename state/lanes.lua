-- Goes before the scripts that work on a lane. A lane's lease is a hash:
--   fence  number of who has it, 0 for nobody    owner  its name, for operators
--   until  ms, when others may take it           turn   the item at the head
--   tries  how often the head was taken over
--   wanted  there if another process would have taken the lane for an item
-- No lease at all: the queue is empty. Each lane with work is in the sorted set
-- of leases, at the time when somebody has to look after it. That is the truth;
-- the stream of ready lanes only wakes somebody up, and may forget.

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function take(lease, leases, lane, fence, owner, turn, tries, ends)
  redis.call('HSET', lease, 'fence', fence, 'owner', owner, 'turn', turn, 'tries', tries, 'until', ends)
  redis.call('ZADD', leases, ends, lane)
end

local function extend(lease, leases, lane, ends)
  redis.call('HSET', lease, 'until', ends)
  redis.call('ZADD', leases, ends, lane)
end

-- wake: whoever reads this and dies before the claim costs five seconds.
local function wake(ready, leases, lane, at)
  redis.call('XADD', ready, 'MAXLEN', '~', 1000, '*', 'lane', lane)
  redis.call('ZADD', leases, at + 5000, lane)
end

-- want notes that the owner would have taken the lane. Owners are a process, a dot and
-- the number of a call. Whoever has the lane then lets others at it behind the turn at
-- work: else a process that has too much to do, and so is late with the end of each
-- turn, would be given the next one of all its lanes, too, with others idle.
local function want(lease, owner)
  local has = redis.call('HGET', lease, 'owner')
  if has and has ~= '' and string.match(has, '^(.*)%.') ~= string.match(owner, '^(.*)%.') then
    redis.call('HSET', lease, 'wanted', 1)
  end
end

-- turn_of is the id in an item, in whatever format: the second word. One that has
-- none gets an id all the same, so that it can be parked.
local function turn_of(item)
  return string.match(item, '^%d+ (%S+)') or 'unreadable-' .. redis.sha1hex(item)
end

-- enqueue adds an item, and wakes somebody up if it is the first: of a longer
-- queue somebody knows.
local function enqueue(queue, depth, ready, leases, lane, item, at)
  redis.call('INCR', depth)
  if redis.call('RPUSH', queue, item) == 1 then
    wake(ready, leases, lane, at)
  end
end

