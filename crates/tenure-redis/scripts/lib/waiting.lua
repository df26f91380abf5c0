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
