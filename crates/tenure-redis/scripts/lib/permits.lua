-- Permits in use are in two sets: Redisson's, with the time at which others may reclaim them; and ours, by hold, with
-- the exact expiry, which is earlier by the slack: a JVM whose clock is ahead must not reclaim a permit early.

-- The number of permits of a hold, as far as is known.
local function many(about, id, n)
  local text = here(redis.pcall('HGET', about, id))
  return math.max(n, text and tonumber(string.match(text, '^%d+ %S+ (%d+) ')) or 0)
end

-- How many permits of a hold still exist: others may have reclaimed some.
local function alive(ends, id, n)
  local there = 0
  for _, score in ipairs(redis.call('ZMSCORE', ends, unpack(permits_of(id, n)))) do
    there = there + (score and 1 or 0)
  end
  return there
end

-- Removes a hold's permits from both sets. Returns how many there were.
local function drop(ends, ours, about, id, n)
  local back = 0
  if not redis.call('ZSCORE', ours, id) and not redis.call('ZSCORE', ends, permit(id, 1)) then
    return back
  end
  back = redis.call('ZREM', ends, unpack(permits_of(id, many(about, id, n))))
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
  local moved = {}
  for i = 1, n do
    moved[2 * i - 1], moved[2 * i] = over + slack, permit(id, i)
  end
  redis.call('ZADD', ends, 'GT', unpack(moved))
  extend(ours, over + slack - now)
  extend_here(about, over + slack - now)
end

-- Publishes the number of free permits. Redisson cannot handle a negative number.
local function tell(publish, channel, name)
  local free = tonumber(redis.call('GET', name) or 0)
  redis.pcall(publish, channel, math.max(0, free))
end
