-- Redisson's fair queue: a list of owners, and a score for each, the time at which it is dropped. Every score includes
-- the patience of all waiters before it, so a waiter that leaves subtracts its patience from those behind it.

-- The patience in a waiter's record; 0 if there is none.
local function patience_in(record)
  return tonumber(string.match(record or '', '^%S+ %S+ (%d+) ')) or 0
end

-- Every score behind a waiter that leaves the head shrinks by its patience, in a time that grows with the queue. Only
-- Redisson looks at scores: ours live as long as their stamps. So while all who wait are ours this is put off, until it
-- adds up to a quarter of what such a queue is worth, with the patience of those who name none. Scores are that much too
-- late meanwhile, also those of a JVM that comes.
local PATIENCE = 300000

local function owe(queue, scores, stamps, about, patience)
  local n = redis.call('LLEN', queue)
  local owed = tonumber(redis.call('HGET', about, 'owed') or 0) + patience
  if n == 0 then
    redis.call('HDEL', about, 'owed')
  end
  if n == 0 or owed == 0 then
    return
  end
  if redis.call('ZCARD', stamps) == n and owed * 4 <= n * PATIENCE then
    redis.call('HSET', about, 'owed', string.format('%d', owed))
    return
  end
  redis.call('HDEL', about, 'owed')
  local behind = redis.call('ZRANGE', scores, 0, -1, 'WITHSCORES')
  for from = 1, #behind, 2000 do
    local moved = {}
    for i = from, math.min(from + 1998, #behind - 1), 2 do
      moved[#moved + 1], moved[#moved + 2] = tonumber(behind[i + 1]) - owed, behind[i]
    end
    redis.call('ZADD', scores, unpack(moved))
  end
end

-- Removes the head, which is one of our waiters; `record` is its record.
local function pop_head(queue, scores, stamps, about, id, record)
  redis.call('LPOP', queue)
  redis.call('ZREM', scores, id)
  redis.call('ZREM', stamps, id)
  redis.call('HDEL', about, id)
  owe(queue, scores, stamps, about, patience_in(record))
end

-- Removes some of our waiters, wherever they are in the queue, in one pass. Returns how many there were.
local function give_up(queue, scores, stamps, about, leaving)
  local patience, off, found = {}, 0, 0
  for i, text in ipairs(redis.call('HMGET', about, unpack(leaving))) do
    patience[leaving[i]] = patience_in(text)
  end
  local behind, less = {}, {}
  for _, id in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if patience[id] then
      off, found = off + patience[id], found + 1
      redis.call('LREM', queue, 1, id)
    elseif off > 0 then
      behind[#behind + 1], less[#less + 1] = id, off
    end
  end
  for from = 0, #behind - 1, 1000 do
    local moved = {}
    local some = {unpack(behind, from + 1, math.min(from + 1000, #behind))}
    for i, score in ipairs(redis.call('ZMSCORE', scores, unpack(some))) do
      if score then
        moved[#moved + 1] = tonumber(score) - less[from + i]
        moved[#moved + 1] = some[i]
      end
    end
    if #moved > 0 then
      redis.call('ZADD', scores, unpack(moved))
    end
  end
  redis.call('ZREM', scores, unpack(leaving))
  redis.call('ZREM', stamps, unpack(leaving))
  redis.call('HDEL', about, unpack(leaving))
  owe(queue, scores, stamps, about, 0)
  return found
end

-- Removes all our expired waiters at once, and then heads whose score has passed. Returns the head, which is `head`
-- before.
local function sweep(queue, scores, stamps, about, now, head)
  local dead = redis.call('ZRANGEBYSCORE', stamps, '-inf', now, 'LIMIT', 0, 1000)
  if #dead > 0 then
    give_up(queue, scores, stamps, about, dead)
    head = redis.call('LINDEX', queue, 0)
  end
  while head do
    local score = redis.call('ZSCORE', scores, head)
    if score and tonumber(score) > now then
      return head
    end
    local alive = redis.call('ZSCORE', stamps, head)
    if score and alive then
      -- A JVM subtracted too much from its score. Its stamp is fresh, so its score is corrected for JVMs to see.
      redis.call('ZADD', scores, alive, head)
      return head
    end
    -- A waiter without a score would never expire.
    redis.call('LPOP', queue)
    redis.call('ZREM', scores, head)
    redis.call('ZREM', stamps, head)
    redis.call('HDEL', about, head)
    head = redis.call('LINDEX', queue, 0)
  end
  return nil
end

-- Refreshes the stamps of some waiters, with as many commands for a hundred as for one. Returns which of them are
-- queued.
--
-- The patience of a waiter does not run out while it is refreshed: its score moves on by the time since the last stamp.
-- Its recorded patience shrinks by that time, because the scores behind it do not move and are reduced by that much
-- less when it leaves. `apart` says that the keys may be split over two nodes: returns nil if they are.
local function keep_places(scores, stamps, about, ids, ms, now, apart)
  local has = {}
  local at = here(redis.pcall('ZMSCORE', scores, unpack(ids)))
  local last = here(redis.pcall('ZMSCORE', stamps, unpack(ids)))
  if not at or not last then
    return nil
  end
  local texts = here(redis.pcall('HMGET', about, unpack(ids))) or {}
  local moved, fresh, records, furthest = {}, {}, {}, now
  for i, id in ipairs(ids) do
    local score = tonumber(at[i])
    if score then
      has[id] = true
      local passed = last[i] and math.max(0, now - (tonumber(last[i]) - ms)) or 0
      local to = math.max(score + passed, now + ms)
      if to ~= score then
        moved[#moved + 1], moved[#moved + 2] = to, id
      end
      local head, patience, rest = string.match(texts[i] or '', '^(%S+ %S+) (%d+) (.*)$')
      if head and passed > 0 then
        patience = string.format('%d', math.max(0, tonumber(patience) - passed))
        records[#records + 1], records[#records + 2] = id, head .. ' ' .. patience .. ' ' .. rest
      end
      fresh[#fresh + 1], fresh[#fresh + 2] = now + ms, id
      furthest = math.max(furthest, to)
    end
  end
  if #fresh == 0 then
    return has
  end
  if apart and not is_here(stamps) then
    return nil
  end
  without_memory(stamps)
  redis.call('ZADD', stamps, unpack(fresh))
  if #moved > 0 then
    redis.call('ZADD', scores, unpack(moved))
  end
  if #records > 0 then
    redis.call('HSET', about, unpack(records))
  end
  -- Stamps identify our expired waiters, so they must outlive the scores.
  extend(stamps, furthest - now + ms)
  extend_here(about, furthest - now + ms)
  return has
end

-- Queues a waiter, or keeps its queue position; `left` is what the lock's TTL has left. `mark` is the first word of its
-- record: `-`, or `-<lease ms>:<attempt>` if it is watching, so that a release may grant to it. Returns when it queued.
local function queue_fair(queue, scores, stamps, about, id, who, mark, ms, patience, left, now, micros)
  if redis.call('ZSCORE', scores, id) then
    local stamp = redis.call('ZSCORE', stamps, id)
    -- The second look of a waiter follows at once on the first.
    if not stamp or tonumber(stamp) < now + ms * 0.9 then
      keep_places(scores, stamps, about, {id}, ms, now)
    end
    local before, rest, since = string.match(redis.call('HGET', about, id) or '', '^(%S+) ((%d+) .*)$')
    if since and before ~= mark then
      without_memory(stamps)
      redis.call('HSET', about, id, mark .. ' ' .. rest)
    end
    return since or ''
  end
  local last = redis.call('LINDEX', queue, -1)
  if not last or redis.call('ZCARD', stamps) == 0 then
    redis.call('HDEL', about, 'owed')
  end
  local after = last and redis.call('ZSCORE', scores, last)
  local score = math.max((after and tonumber(after) or now + left) + tonumber(patience), now + ms)
  redis.call('ZADD', scores, score, id)
  redis.call('RPUSH', queue, id)
  redis.call('HSET', about, id, mark .. ' ' .. micros .. ' ' .. patience .. ' ' .. who)
  redis.call('ZADD', stamps, now + ms, id)
  -- Stamps identify our expired waiters, so they must outlive the scores.
  local ends = score - now + ms
  extend(stamps, ends)
  extend(about, ends)
  return micros
end
