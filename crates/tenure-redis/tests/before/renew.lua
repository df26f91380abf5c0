-- Extends the TTL of a key to at least `ms`; never shortens it. Does nothing with 0.
local function extend(key, ms)
  if ms > 0 and redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
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

-- Checks and extends many holds, and refreshes the stamps of many waiters, all in one slot. Creates nothing, writes no
-- counts, shortens nothing; with a lease of 0 it only checks. Similar claims on one name form one group, so that a
-- hundred waiters cost as many commands as one.
-- Keys:      for each group, by its kind, with those first that a hold cannot exist without:
--            l (lock, election) name, about; q (lock or election that may be waiting) name, about, waiters, stamps;
--            f (fair lock) name, about, scores, stamps; w (write) name, about, waiters, stamps, writers;
--            r (read) name, timeout of each claim, about, waiters, stamps;
--            p (permits) our ends, ends, about, waiters, stamps, name.
--            While a slot migrates: for one claim, only the first of these; all of them are at the end of the arguments
-- Arguments: number of keys at the end of the arguments, slack ms of permits, then for each group: kind, lease ms,
--            stamp ms, number of permits, number of claims, their ids
-- Reply:     for each claim: 1 held; 2 waiting; 0 neither; 3 unknown, because a key is on another node
local apart, slack, now = tonumber(ARGV[1]), tonumber(ARGV[2]), clock()
local keys = apart == 0 and KEYS or {unpack(ARGV, #ARGV - apart + 1)}
local reply = {}

-- Returns which of these fields exist. A key that another program has overwritten is not ours any more: it must not
-- make the renewal of all others fail.
local function fields(name, ids, ending)
  local wanted, there = {}, {}
  for i, id in ipairs(ids) do
    wanted[i] = id .. ending
  end
  for i, count in ipairs(here(redis.pcall('HMGET', name, unpack(wanted))) or {}) do
    there[ids[i]] = count and true
  end
  return there
end

-- Returns the ids that hold nothing, and so may be waiting.
local function others(found, ids)
  local rest = {}
  for _, id in ipairs(ids) do
    if not found[id] then
      rest[#rest + 1] = id
    end
  end
  return rest
end

-- Refreshes the stamp of each that is queued. Returns whether any is.
local function stamp_others(found, ids, waiters, stamps, about, ms)
  local rest, places = others(found, ids), {}
  if #rest == 0 then
    return false
  end
  local scores = here(redis.pcall('ZMSCORE', waiters, unpack(rest)))
  local can_stamp = apart == 0 or is_here(stamps)
  for i, id in ipairs(rest) do
    found[id] = (not scores and 3) or (scores[i] and 2) or 0
    if found[id] == 2 and can_stamp then
      places[#places + 1] = id
    elseif found[id] == 2 then
      found[id] = 3
    end
  end
  if #places > 0 then
    stamp(waiters, stamps, about, places, ms, now)
  end
  return #places > 0
end

local function stamp_queue(found, ids, scores, stamps, about, ms)
  local rest = others(found, ids)
  if #rest > 0 then
    local places = keep_places(scores, stamps, about, rest, ms, now, apart ~= 0)
    for _, id in ipairs(rest) do
      found[id] = (not places and 3) or (places[id] and 2) or 0
    end
  end
end

local function renew_exclusive(found, ids, ending, name, about, lease)
  local held = fields(name, ids, ending)
  for _, id in ipairs(ids) do
    if held[id] then
      extend(name, lease)
      extend_here(about, lease)
      found[id] = 1
    end
  end
end

local function renew_readers(found, ids, name, timeouts, about, lease)
  local held = fields(name, ids, '')
  for i, id in ipairs(ids) do
    if held[id] and redis.call('EXISTS', timeouts[i]) == 1 then
      extend(timeouts[i], lease)
      -- A JVM reader shortens the TTL of the hash to its own lease.
      extend(name, redis.call('PTTL', timeouts[i]))
      extend_here(about, lease)
      found[id] = 1
    end
  end
end

local function renew_permits(found, ids, n, ours, ends, about, name, lease)
  for _, id in ipairs(ids) do
    local over = redis.call('ZSCORE', ours, id)
    if over and tonumber(over) > now then
      -- All permits or none: a JVM whose clock is far ahead may have reclaimed some, or the semaphore's TTL may end
      -- before the lease.
      local all = many(about, id, n)
      local ttl = here(redis.pcall('PTTL', name)) or -1
      found[id] = 0
      if alive(ends, id, all) == all and (ttl < 0 or ttl >= lease) then
        if lease > 0 then
          put(ends, ours, about, id, all, lease, slack, now)
        end
        found[id] = 1
      end
    end
  end
end

local at, key = 3, 0
local function take(n)
  local some = {unpack(keys, key + 1, key + n)}
  key = key + n
  return some
end

while at <= #ARGV - apart do
  local kind, lease, ms = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local permits, n = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local ids, found = {unpack(ARGV, at + 5, at + 4 + n)}, {}
  if kind == 'l' then
    local name, about = unpack(take(2))
    renew_exclusive(found, ids, '', name, about, lease)
  elseif kind == 'q' then
    local name, about, waiters, stamps = unpack(take(4))
    renew_exclusive(found, ids, '', name, about, lease)
    stamp_others(found, ids, waiters, stamps, about, ms)
  elseif kind == 'f' then
    local name, about, scores, stamps = unpack(take(4))
    renew_exclusive(found, ids, '', name, about, lease)
    stamp_queue(found, ids, scores, stamps, about, ms)
  elseif kind == 'w' then
    local name, about, waiters, stamps, writers = unpack(take(5))
    renew_exclusive(found, ids, ':write', name, about, lease)
    if stamp_others(found, ids, waiters, stamps, about, ms) then
      extend_here(writers, ms)
    end
  elseif kind == 'r' then
    local name, timeouts = unpack(take(1)), take(n)
    local about, waiters, stamps = unpack(take(3))
    renew_readers(found, ids, name, timeouts, about, lease)
    stamp_others(found, ids, waiters, stamps, about, ms)
  else
    local ours, ends, about, waiters, stamps, name = unpack(take(6))
    renew_permits(found, ids, permits, ours, ends, about, name, lease)
    stamp_others(found, ids, waiters, stamps, about, ms)
  end
  for _, id in ipairs(ids) do
    reply[#reply + 1] = found[id] or 0
  end
  at = at + 5 + n
end
return reply

