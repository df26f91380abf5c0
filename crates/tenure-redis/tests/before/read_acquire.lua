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

-- One attempt on the read half of a read/write lock.
-- Keys:      name, fence, about, waiters, writers, stamps, timeout of this reader
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait),
--            field of the caller's own write hold ('' if there is none), its id
-- Reply:     {1, fence} held; {0, ms left, first waiter in the way or writer, when it queued in microseconds} busy;
--            {2} a re-entry found no hold; {3} it is another kind of lock; {4} the key has no TTL
local name, fences, about, waiters, writers, stamps, timeout = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]

if redis.call('HEXISTS', name, id) == 1 then
  if redis.call('EXISTS', timeout) == 1 then
    if holds ~= '1' then
      redis.call('HSET', name, id, holds)
    end
    extend(timeout, lease)
    extend(name, lease)
    local fence = fence_again(fences, ARGV[4], about, id, '0 ' .. ARGV[5])
    extend(about, lease)
    return {1, fence}
  end
  redis.call('HDEL', name, id)
  redis.call('HDEL', about, id)
end
if holds ~= '1' then
  return {2}
end

local left = redis.call('PTTL', name)
local mode = left ~= -2 and redis.call('HGET', name, 'mode')
if left ~= -2 and not mode then
  return {3}
end
if left == -1 then
  return {4}
end
local under = mode == 'write' and ARGV[7] ~= '' and redis.call('HEXISTS', name, ARGV[7]) == 1
local now, micros = clock()
local ahead = ''
if not under and redis.call('EXISTS', writers) == 1 then
  -- Writers of ours that queued earlier go first, or a stream of readers would starve them.
  bury(waiters, writers, stamps, about, now)
  local first = redis.call('ZRANGE', writers, 0, 0, 'WITHSCORES')
  local mine = redis.call('ZSCORE', waiters, id)
  if first[1] and (not mine or tonumber(first[2]) < tonumber(mine)) then
    ahead = first[1]
  end
end

if ahead == '' and (under or mode ~= 'write') then
  leave(waiters, writers, stamps, about, id)
  local fence = (under and fence_of(about, ARGV[8])) or draw(fences, ARGV[4], micros)
  if not mode then
    redis.call('HSET', name, 'mode', 'read')
  end
  redis.call('HSET', name, id, 1)
  redis.call('SET', timeout, 1, 'PX', lease)
  extend(name, lease)
  tidy(about, stamps, function() return redis.call('HLEN', name) end, function(each)
    return redis.call('HEXISTS', name, each) == 1 or redis.call('HEXISTS', name, each .. ':write') == 1
  end)
  redis.call('HSET', about, id, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  extend(about, lease)
  return {1, fence}
end

local queued = ''
if ARGV[6] ~= '' then
  queued = queue_up(waiters, stamps, about, id, ARGV[5], tonumber(ARGV[6]), now, micros)
end
if mode ~= 'write' then
  left = math.max(1, tonumber(redis.call('ZSCORE', stamps, ahead) or now + 1) - now)
end
return {0, left, ahead ~= '' and ahead or writer_of(name, about), queued}
