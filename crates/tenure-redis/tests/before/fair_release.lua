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

-- The server's clock: milliseconds as a number, microseconds as text, because Lua does not print 16 digits in full.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), t[1] .. string.format('%06d', t[2])
end

-- Draws the next fence of a name: the server's clock in microseconds, or the last fence + 1 if that is larger. With
-- `keep` = 0 it is Redisson's own counter, which never expires.
local function draw(key, keep, micros)
  if keep == '0' then
    redis.call('INCR', key)
    return redis.call('GET', key)
  end
  local last = redis.call('SET', key, micros, 'PX', keep, 'GET')
  if last and (#last > #micros or (#last == #micros and last >= micros)) then
    redis.call('SET', key, last, 'PX', keep)
    redis.call('INCR', key)
    return redis.call('GET', key)
  end
  return micros
end

-- The fence in a record, or nil.
local function fence_of(about, id)
  return string.match(redis.call('HGET', about, id) or '', '^(%d+) ')
end

-- The fence of an existing hold. If its record was evicted, a new fence is drawn: nobody else held the name in between,
-- so a larger fence is as good. `rest` is the rest of the record.
local function fence_again(fences, keep, about, id, rest)
  local fence = fence_of(about, id)
  if not fence then
    local _, micros = clock()
    fence = draw(fences, keep, micros)
    redis.call('HSET', about, id, fence .. ' ' .. micros .. ' ' .. rest)
  end
  return fence
end

-- Descriptive records of our holders and waiters, `<fence> <since> <number> <who>`, all in one hash.

-- Removes records of holds and waiters that ended without a release; the key that would have shown this may have
-- expired with them. If there are such records, each grant removes up to a few: more than a grant adds, and never a
-- full scan. `holders` returns the number of holds, `held` whether an id is one of them.
local function tidy(about, stamps, holders, held)
  -- Two fields are not records: `holder` and `hold`.
  local records = redis.call('HLEN', about) - 2
  if records <= 0 or records <= (holders and holders() or 0) + redis.call('ZCARD', stamps) then
    return
  end
  for _, id in ipairs(redis.call('HRANDFIELD', about, 5)) do
    local known = id == 'holder' or id == 'hold' or (held and held(id))
    if not known and not redis.call('ZSCORE', stamps, id) then
      redis.call('HDEL', about, id)
    end
  end
end

-- Writes the record of the only holder. Removes the record of the previous holder, whose hold may have expired.
local function describe(about, id, text)
  local last = redis.call('HGET', about, 'holder')
  if last and last ~= id then
    redis.call('HDEL', about, last)
  end
  redis.call('HSET', about, id, text, 'holder', id)
end

-- The current writer's id if it is one of ours, else ''.
local function writer_of(name, about)
  local holder = redis.call('HGET', about, 'holder')
  return holder and redis.call('HEXISTS', name, holder .. ':write') == 1 and holder or ''
end

-- Redisson's fair queue: a list of owners, and a score for each, the time at which it is dropped. Every score includes
-- the patience of all waiters before it, so a waiter that leaves subtracts its patience from those behind it.

-- The patience in a waiter's record; 0 if there is none.
local function patience_in(record)
  return tonumber(string.match(record or '', '^%S+ %S+ (%d+) ')) or 0
end

-- Removes the head, which is one of our waiters; `record` is its record.
local function pop_head(queue, scores, stamps, id, record)
  local patience = patience_in(record)
  redis.call('LPOP', queue)
  redis.call('ZREM', scores, id)
  redis.call('ZREM', stamps, id)
  local behind = redis.call('ZRANGE', scores, 0, -1, 'WITHSCORES')
  for from = 1, #behind, 2000 do
    local moved = {}
    for i = from, math.min(from + 1998, #behind - 1), 2 do
      moved[#moved + 1], moved[#moved + 2] = tonumber(behind[i + 1]) - patience, behind[i]
    end
    redis.call('ZADD', scores, unpack(moved))
  end
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
  return found
end

-- Removes all our expired waiters at once, and then heads whose score has passed. Returns the head.
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
      -- A JVM subtracted too much from its score. Its stamp is fresh, so its score is corrected for JVMs to see.
      redis.call('ZADD', scores, alive, head)
      return head
    end
    -- A waiter without a score would never expire.
    redis.call('LPOP', queue)
    redis.call('ZREM', scores, head)
    redis.call('ZREM', stamps, head)
    redis.call('HDEL', about, head)
  end
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

-- Releases a fair lock, or cancels a wait for it; or writes the hold count of a hold that stays.
-- Keys:      name, about, queue, scores, stamps, fence
-- Arguments: id, holds left, lease ms, publish command, prefix of a waiter's channel, to which its id is appended, fence
--            retention ms (0: Redisson's counter)
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, about, queue, scores, stamps, fences = unpack(KEYS)
local id = ARGV[1]

if ARGV[2] ~= '0' then
  if redis.call('HEXISTS', name, id) == 0 then
    return 0
  end
  local lease = tonumber(ARGV[3])
  redis.call('HSET', name, id, ARGV[2])
  extend(name, lease)
  extend(about, lease)
  return 1
end

local free, freed = true, 1
if redis.call('HEXISTS', name, id) == 1 then
  redis.call('DEL', name)
  redis.call('HDEL', about, id, 'holder')
else
  freed = give_up(queue, scores, stamps, about, {id})
  free = redis.call('EXISTS', name) == 0
end
if not free then
  return freed
end

-- Grants to the new head of the queue if it is watching, and wakes it, also if the previous head left without ever
-- holding the lock.
local now, micros = clock()
local head = redis.call('LINDEX', queue, 0)
local stamp = head and tonumber(redis.call('ZSCORE', stamps, head) or 0)
if head and stamp <= now then
  head = sweep(queue, scores, stamps, about, now)
  stamp = head and tonumber(redis.call('ZSCORE', stamps, head) or 0)
end
if not head then
  return freed
end
local message = '0'
local record = stamp > now and redis.call('HGET', about, head) or ''
local lease, attempt, who = string.match(record, '^%-(%d+):(%d+) %d+ %d+ (.*)$')
-- Another program may have overwritten the key of the fence: the head finds out by itself.
local drawn, fence = false
if lease then
  drawn, fence = pcall(draw, fences, ARGV[6], micros)
end
if drawn then
  -- It may be dead. Its hold lasts for as long as it would have been waited for.
  local ms = math.floor(math.min(tonumber(lease), stamp - now))
  pop_head(queue, scores, stamps, head, record)
  redis.call('HSET', name, head, 1)
  redis.call('PEXPIRE', name, ms)
  describe(about, head, fence .. ' ' .. micros .. ' 0 ' .. who)
  extend(about, ms)
  message = 'granted ' .. attempt .. ' ' .. fence .. ' ' .. ms
end
redis.pcall(ARGV[4], ARGV[5] .. head, message)
return freed
