-- Redisson's fair queue: a list of owners, and a score each at which it is given up. Every score contains the patience
-- of all who came before, so whoever leaves takes its own patience off those behind.
local function patience_of(about, id)
  local text = redis.call('HGET', about, id)
  return text and tonumber(string.match(text, '^%S+ %S+ (%d+) ')) or 0
end

-- Takes some of ours out, wherever they stand, in one walk. How many were there.
local function give_up(queue, scores, stamps, about, leaving)
  local gone, off, found = {}, 0, 0
  for _, id in ipairs(leaving) do
    gone[id] = patience_of(about, id)
  end
  for _, id in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if gone[id] then
      off, found = off + gone[id], found + 1
      redis.call('LREM', queue, 1, id)
      redis.call('HDEL', about, id)
    elseif off > 0 and redis.call('ZSCORE', scores, id) then
      redis.call('ZINCRBY', scores, -off, id)
    end
  end
  for _, id in ipairs(leaving) do
    redis.call('ZREM', scores, id)
    redis.call('ZREM', stamps, id)
  end
  return found
end

-- Takes out our own dead, all at once, and at the head whoever's score has passed. The head.
local function sweep(queue, scores, stamps, about, now)
  local dead = redis.call('ZRANGEBYSCORE', stamps, '-inf', now, 'LIMIT', 0, 1000)
  if #dead > 0 then
    give_up(queue, scores, stamps, about, dead)
  end
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head then
      return nil
    end
    local score = redis.call('ZSCORE', scores, head)
    if score and tonumber(score) > now then
      return head
    end
    local alive = redis.call('ZSCORE', stamps, head)
    if score and alive then
      -- A JVM took more off it than it should: it gave a sign of life, and JVMs shall see that too.
      redis.call('ZADD', scores, alive, head)
      return head
    end
    -- One without a score would never go by itself.
    redis.call('LPOP', queue)
    redis.call('ZREM', scores, head)
    redis.call('ZREM', stamps, head)
  end
end

-- A sign of life of a waiter. Its patience does not run out while it gives them: its score moves on with the time
-- since the last one. By so much less is taken off those behind when it leaves, whose scores do not move.
local function keep_place(scores, stamps, about, id, ms, now)
  local last = redis.call('ZSCORE', stamps, id)
  local passed = last and now - (tonumber(last) - ms) or 0
  if passed > 0 then
    redis.call('ZINCRBY', scores, passed, id)
    local text = redis.call('HGET', about, id)
    local head, patience, rest = string.match(text or '', '^(%S+ %S+) (%d+) (.*)$')
    if head then
      patience = math.max(0, tonumber(patience) - passed)
      redis.call('HSET', about, id, head .. ' ' .. string.format('%d', patience) .. ' ' .. rest)
    end
  end
  redis.call('ZADD', stamps, now + ms, id)
  local score = tonumber(redis.call('ZSCORE', scores, id))
  if score < now + ms then
    score = now + ms
    redis.call('ZADD', scores, score, id)
  end
  -- Our dead are known by their stamps: these outlive the places.
  extend(stamps, score - now + ms)
  extend(about, score - now + ms)
end
