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

-- Takes out those who gave no sign of life. How many.
local function bury(waiters, writers, stamps, about, now)
  local dead = redis.call('ZRANGEBYSCORE', stamps, '-inf', now, 'LIMIT', 0, 1000)
  for _, id in ipairs(dead) do
    leave(waiters, writers, stamps, about, id)
    redis.call('ZREM', stamps, id)
  end
  return #dead
end

local function stamp(waiters, stamps, about, id, ms, now)
  redis.call('ZADD', stamps, now + ms, id)
  extend(waiters, ms)
  extend(stamps, ms)
  extend(about, ms)
end
