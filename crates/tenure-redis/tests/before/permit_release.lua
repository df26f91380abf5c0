-- The server's clock: milliseconds as a number, microseconds as text, because Lua does not print 16 digits in full.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), t[1] .. string.format('%06d', t[2])
end

-- Extends the TTL of a key to at least `ms`; never shortens it. Does nothing with 0.
local function extend(key, ms)
  if ms > 0 and redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

-- Like extend, with one command where the server can compare, and the key has a TTL.
local function lengthen(key, ms)
  if ms > 0 and redis.pcall('PEXPIRE', key, ms, 'GT') ~= 1 then
    extend(key, ms)
  end
end

-- While a slot migrates, the keys of a name may be split over two nodes. Keys that a hold does not depend on are used
-- if they are on this node, and ignored otherwise.

-- Returns the reply, or nil for an error.
local function here(reply)
  if type(reply) == 'table' and reply.err then
    return nil
  end
  return reply
end

-- Like extend, for a key that may be on another node.
local function extend_here(key, ms)
  local left = here(redis.pcall('PTTL', key))
  if left and ms > 0 and left < ms then
    redis.pcall('PEXPIRE', key, ms)
  end
end

-- Whether a key is on this node. Writing to a key that is not would create a second one, and the original could not be
-- migrated.
local function is_here(key)
  return redis.pcall('EXISTS', key) == 1
end

-- Renewing holds and waiters needs no more memory, but a server at maxmemory refuses ZADD and the like until the script
-- has written something. This write comes first and changes nothing.
local function without_memory(set)
  redis.call('ZREM', set, '')
end

-- Our waiters in queue order, each alive as long as its stamp is fresh. Removes a waiter; returns 1 if it was queued.
local function leave(waiters, writers, stamps, about, id)
  local was = redis.call('ZREM', waiters, id)
  if was == 1 then
    redis.call('ZREM', writers, id)
    redis.call('ZREM', stamps, id)
    redis.call('HDEL', about, id)
  end
  return was
end

-- Removes waiters whose stamp has expired.
local function bury(waiters, writers, stamps, about, now)
  local dead = redis.call('ZRANGEBYSCORE', stamps, '-inf', now, 'LIMIT', 0, 1000)
  if #dead > 0 then
    redis.call('ZREM', waiters, unpack(dead))
    redis.call('ZREM', writers, unpack(dead))
    redis.call('ZREM', stamps, unpack(dead))
    redis.call('HDEL', about, unpack(dead))
  end
  -- A waiter whose stamp was lost would never expire, and would block all later ones.
  for _, set in ipairs({waiters, writers}) do
    local first = redis.call('ZRANGE', set, 0, 0)[1]
    while first and not redis.call('ZSCORE', stamps, first) do
      leave(waiters, writers, stamps, about, first)
      redis.call('ZREM', set, first)
      first = redis.call('ZRANGE', set, 0, 0)[1]
    end
  end
end

-- Refreshes the stamps of some queued waiters, with as many commands for a hundred as for one.
local function stamp(waiters, stamps, about, ids, ms, now)
  local fresh = {}
  for _, id in ipairs(ids) do
    fresh[#fresh + 1] = now + ms
    fresh[#fresh + 1] = id
  end
  without_memory(stamps)
  redis.call('ZADD', stamps, unpack(fresh))
  extend(waiters, ms)
  extend(stamps, ms)
  extend_here(about, ms)
end

-- Queues a waiter, or keeps its queue position. Returns when it queued.
local function queue_up(waiters, stamps, about, id, who, ms, now, micros)
  local since = redis.call('ZSCORE', waiters, id)
  if not since then
    redis.call('ZADD', waiters, micros, id)
    redis.call('HSET', about, id, '- ' .. micros .. ' 0 ' .. who)
  end
  stamp(waiters, stamps, about, {id}, ms, now)
  return since and string.format('%.0f', since) or micros
end

-- Permits in use are in two sets: Redisson's, with the time at which others may reclaim them; and ours, by hold, with
-- the exact expiry, which is earlier by the slack: a JVM whose clock is ahead must not reclaim a permit early.

-- The id of the i-th permit of a hold, 16 raw bytes as in Redisson. It is derived from the hold, so a retry finds the
-- same permits.
local function permit(id, i)
  local hex = string.sub(redis.sha1hex(id .. '/' .. i), 1, 32)
  return (string.gsub(hex, '..', function(two) return string.char(tonumber(two, 16)) end))
end

-- The number of permits of a hold, as far as is known.
local function many(about, id, n)
  local text = here(redis.pcall('HGET', about, id))
  return math.max(n, text and tonumber(string.match(text, '^%d+ %S+ (%d+) ')) or 0)
end

-- How many permits of a hold still exist: others may have reclaimed some.
local function alive(ends, id, n)
  local there = 0
  for i = 1, n do
    there = there + (redis.call('ZSCORE', ends, permit(id, i)) and 1 or 0)
  end
  return there
end

-- Removes a hold's permits from both sets. Returns how many there were.
local function drop(ends, ours, about, id, n)
  local back = 0
  if not redis.call('ZSCORE', ours, id) and not redis.call('ZSCORE', ends, permit(id, 1)) then
    return back
  end
  for i = 1, many(about, id, n) do
    back = back + redis.call('ZREM', ends, permit(id, i))
  end
  if redis.call('ZREM', ours, id) == 1 then
    redis.call('HDEL', about, id)
  end
  return back
end

-- Adds permits to the free count.
local function give(name, back)
  if back > 0 and redis.call('EXISTS', name) == 1 then
    redis.call('INCRBY', name, back)
  end
  return back
end

-- Reclaims expired permits: ours at their expiry, those of others after the slack for clock skew. Returns how many.
local function reap(name, ends, ours, about, slack, now)
  local back = 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', ours, '-inf', now, 'LIMIT', 0, 1000)) do
    back = back + drop(ends, ours, about, id, 1)
  end
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now - slack, 'LIMIT', 0, 1000)) do
    back = back + redis.call('ZREM', ends, each)
  end
  return give(name, back)
end

-- Sets the expiry of a hold to at least `lease` from now. Our set and the record must outlive it until Redisson's set
-- expires: without them an expired permit would be treated as one with slack.
local function put(ends, ours, about, id, n, lease, slack, now)
  local over = math.max(tonumber(redis.call('ZSCORE', ours, id) or 0), now + lease)
  without_memory(ours)
  redis.call('ZADD', ours, over, id)
  for i = 1, n do
    local each = permit(id, i)
    local old = tonumber(redis.call('ZSCORE', ends, each) or 0)
    redis.call('ZADD', ends, math.max(old, over + slack), each)
  end
  extend(ours, over + slack - now)
  extend_here(about, over + slack - now)
end

-- Publishes the number of free permits. Redisson cannot handle a negative number.
local function tell(publish, channel, name)
  local free = tonumber(redis.call('GET', name) or 0)
  redis.pcall(publish, channel, math.max(0, free))
end

-- Releases permits, or cancels a wait for them.
-- Keys:      name (number of free permits), ends, our ends, about, waiters, stamps
-- Arguments: id, number of permits if there is no record of it, publish command, channel, slack ms
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, ends, ours, about, waiters, stamps = unpack(KEYS)
local id = ARGV[1]
local now = clock()
local reaped = reap(name, ends, ours, about, tonumber(ARGV[5]), now)
local back = give(name, drop(ends, ours, about, id, tonumber(ARGV[2])))
if back + reaped > 0 then
  tell(ARGV[3], ARGV[4], name)
end
if back > 0 then
  return 1
end
redis.call('HDEL', about, id)
return leave(waiters, waiters, stamps, about, id)
