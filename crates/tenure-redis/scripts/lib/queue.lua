-- Redisson's fair queue: a list of owners, and a score each at which it is given up. Every score contains the patience
-- of all who came before, so whoever leaves takes its own patience off those behind.
local function take_off(scores, ids, from, patience)
  for i = from, #ids do
    if redis.call('ZSCORE', scores, ids[i]) then
      redis.call('ZINCRBY', scores, -patience, ids[i])
    end
  end
end

local function patience_of(about, id)
  local text = redis.call('HGET', about, id)
  return text and tonumber(string.match(text, '^%S+ %S+ (%d+) ')) or 0
end

-- Takes one of ours out, wherever it stands. Whether it was there.
local function give_up(queue, scores, stamps, about, id)
  local ids = redis.call('LRANGE', queue, 0, -1)
  for i = 1, #ids do
    if ids[i] == id then
      take_off(scores, ids, i + 1, patience_of(about, id))
      redis.call('LREM', queue, 1, id)
      redis.call('ZREM', scores, id)
      redis.call('ZREM', stamps, id)
      redis.call('HDEL', about, id)
      return 1
    end
  end
  redis.call('ZREM', stamps, id)
  return 0
end

-- Takes out our own dead, all at once, and at the head whoever's score has passed.
local function sweep(queue, scores, stamps, about, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', stamps, '-inf', now, 'LIMIT', 0, 1000)) do
    give_up(queue, scores, stamps, about, id)
  end
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head then
      return nil
    end
    local score = redis.call('ZSCORE', scores, head)
    -- One without a score would never go by itself.
    if score and tonumber(score) > now then
      return head
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', scores, head)
    redis.call('ZREM', stamps, head)
  end
end

-- A sign of life of a waiter. Its patience does not run out while it gives them: its score moves on with the time
-- that has passed since the last one, so that what it is ahead of those before it stays the same.
local function keep_place(queue, scores, stamps, about, id, ms, now)
  local last = redis.call('ZSCORE', stamps, id)
  if last and tonumber(last) - ms < now then
    redis.call('ZINCRBY', scores, now - (tonumber(last) - ms), id)
  end
  redis.call('ZADD', stamps, now + ms, id)
  -- Our dead are known by their stamps: these outlive the places.
  local rest = tonumber(redis.call('ZSCORE', scores, id)) - now + ms
  extend(stamps, rest)
  extend(about, rest)
end
