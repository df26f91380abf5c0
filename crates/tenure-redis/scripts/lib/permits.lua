-- Permits in use: Redisson's set with the time at which others may take them back, and ours with the true end, which
-- comes sooner: a JVM whose clock is ahead must not end a permit early.

-- The id of the i-th permit of a hold, 16 raw bytes as Redisson has them: a repeat finds the same ones.
local function permit(id, i)
  local hex = string.sub(redis.sha1hex(id .. '/' .. i), 1, 32)
  return (string.gsub(hex, '..', function(two) return string.char(tonumber(two, 16)) end))
end

-- Takes back those that have ended. How many.
local function reap(name, ends, ours, now)
  local over = redis.call('ZRANGEBYSCORE', ours, '-inf', now)
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do
    over[#over + 1] = each
  end
  local back = 0
  for _, each in ipairs(over) do
    redis.call('ZREM', ours, each)
    back = back + redis.call('ZREM', ends, each)
  end
  if back > 0 and redis.call('EXISTS', name) == 1 then
    redis.call('INCRBY', name, back)
  end
  return back
end

-- Puts the ends of a hold's permits no earlier than `over`. Our set must outlive them until the others let go: without it
-- a permit that has ended is taken for one with slack.
local function put(ends, ours, id, n, over, slack)
  for i = 1, n do
    local each = permit(id, i)
    local old = tonumber(redis.call('ZSCORE', ours, each) or 0)
    redis.call('ZADD', ours, math.max(old, over), each)
    old = tonumber(redis.call('ZSCORE', ends, each) or 0)
    redis.call('ZADD', ends, math.max(old, over + slack), each)
  end
end

-- Tells waiters how many are free. Redisson cannot bear a negative number.
local function tell(publish, channel, name)
  local free = tonumber(redis.call('GET', name) or 0)
  redis.pcall(publish, channel, math.max(0, free))
end
