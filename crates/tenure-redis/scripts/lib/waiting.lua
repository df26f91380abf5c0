-- Waiters of ours, in the order of coming, each alive as long as its stamp is fresh.
local function leave(waiters, writers, stamps, about, id)
  local was = redis.call('ZREM', waiters, id)
  if was == 1 then
    redis.call('ZREM', writers, id)
    redis.call('ZREM', stamps, id)
    redis.call('HDEL', about, id)
  end
  return was
end

-- Takes out those who gave no sign of life.
local function bury(waiters, writers, stamps, about, now)
  local dead = redis.call('ZRANGEBYSCORE', stamps, '-inf', now, 'LIMIT', 0, 1000)
  for _, id in ipairs(dead) do
    leave(waiters, writers, stamps, about, id)
    redis.call('ZREM', stamps, id)
  end
  -- One whose stamp was lost would never go by itself, and all who come later would wait for it.
  for _, set in ipairs({waiters, writers}) do
    local first = redis.call('ZRANGE', set, 0, 0)[1]
    while first and not redis.call('ZSCORE', stamps, first) do
      leave(waiters, writers, stamps, about, first)
      redis.call('ZREM', set, first)
      first = redis.call('ZRANGE', set, 0, 0)[1]
    end
  end
end

local function stamp(waiters, stamps, about, id, ms, now)
  redis.call('ZADD', stamps, now + ms, id)
  extend(waiters, ms)
  extend(stamps, ms)
  extend(about, ms)
end
