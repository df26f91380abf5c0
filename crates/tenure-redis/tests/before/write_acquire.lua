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

-- The TTL of a reader: it is alive as long as one of its own keys `<base>:<reader>:rwlock_timeout:<n>`, whatever the
-- TTL of the hash. Redisson has one such key for each re-entry, we only the first.
--
-- These keys cannot be declared in KEYS, because they are known only after the hash was read. While a slot migrates,
-- one of them may be on the other node, and this node cannot tell whether the reader is alive. The result is nil then,
-- and must be checked before anything is written.
local function time_of(base, reader, holds)
  local left = 0
  for n = 1, math.min(holds, 1000) do
    local key = base .. ':' .. reader .. ':rwlock_timeout:' .. n
    local time = redis.pcall('PTTL', key)
    if type(time) == 'table' then
      if string.find(time.err, 'non local key', 1, true) then
        return nil
      end
      -- Any other error is raised as usual.
      time = redis.call('PTTL', key)
    end
    left = math.max(left, time)
  end
  return left
end

-- The error that the server itself returns if a declared key is on another node: the client retries.
local function elsewhere()
  return redis.error_reply('TRYAGAIN the keys of some readers are on another node while their slot moves')
end

-- Checks all readers except `but`, or until `enough(ms left, live readers)` is true for a live reader; writes nothing.
-- Returns how many are alive, their longest and shortest TTL, the dead ones, and whether all readers were checked.
local function look_at_readers(name, base, but, enough)
  local seen = {live = 0, longest = 0, shortest = math.huge, dead = {}, all = false}
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', name, cursor, 'COUNT', 100)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local reader, holds = page[2][i], tonumber(page[2][i + 1])
      if reader ~= but and reader ~= 'mode' and holds and string.sub(reader, -6) ~= ':write' then
        local left = time_of(base, reader, holds)
        if not left then
          return nil
        end
        if left > 0 then
          seen.live = seen.live + 1
          seen.longest = math.max(seen.longest, left)
          seen.shortest = math.min(seen.shortest, left)
          if enough and enough(left, seen.live) then
            return seen
          end
        else
          seen.dead[#seen.dead + 1] = reader
        end
      end
    end
  until cursor == '0'
  seen.all = true
  return seen
end

-- Removes readers that have expired.
local function remove_readers(name, about, dead)
  for _, reader in ipairs(dead) do
    redis.call('HDEL', name, reader)
    redis.call('HDEL', about, reader)
  end
end

-- Publishes that a writer or reader has released. On '1', the message for a writer, a JVM wakes all its sleeping
-- threads, and drops the message if there is none yet: a thread that has just found the lock taken would sleep for the
-- whole lease. '0', the message for a reader, is kept for such a thread.
local function tell_gone(publish, channel, reads)
  if not reads then
    redis.pcall(publish, channel, '1')
  end
  redis.pcall(publish, channel, '0')
end

-- One attempt on the write half of a read/write lock.
-- Keys:      name, fence, about, waiters, writers, stamps
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait),
--            prefix of readers' timeout keys
-- Reply:     {1, fence} held; {0, ms left, first waiter in the way or writer, when it queued in microseconds} busy;
--            {2} a re-entry found no hold; {3} it is another kind of lock; {4} the key has no TTL; error TRYAGAIN:
--            the timeout key of a reader is on another node
local name, fences, about, waiters, writers, stamps = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local field = id .. ':write'

if redis.call('HEXISTS', name, field) == 1 then
  if holds ~= '1' then
    redis.call('HSET', name, field, holds)
  end
  extend(name, lease)
  local fence = fence_again(fences, ARGV[4], about, id, '0 ' .. ARGV[5])
  extend(about, lease)
  return {1, fence}
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
local now, micros = clock()
if mode == 'read' then
  -- An expired reader stays in the hash as long as other readers keep the hash alive.
  local readers = look_at_readers(name, ARGV[7])
  if not readers then
    return elsewhere()
  end
  remove_readers(name, about, readers.dead)
  if readers.live == 0 then
    redis.call('DEL', name)
    mode = false
  else
    left = readers.shortest
  end
end
local ahead = ''
if redis.call('EXISTS', waiters) == 1 then
  bury(waiters, writers, stamps, about, now)
  local first = redis.call('ZRANGE', waiters, 0, 0)[1]
  if first and first ~= id then
    ahead = first
  end
end

if not mode and ahead == '' then
  leave(waiters, writers, stamps, about, id)
  local fence = draw(fences, ARGV[4], micros)
  redis.call('HSET', name, 'mode', 'write', field, 1)
  redis.call('PEXPIRE', name, lease)
  tidy(about, stamps)
  describe(about, id, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  extend(about, lease)
  return {1, fence}
end

local queued = ''
if ARGV[6] ~= '' then
  local ms = tonumber(ARGV[6])
  queued = queue_up(waiters, stamps, about, id, ARGV[5], ms, now, micros)
  redis.call('ZADD', writers, 'NX', queued, id)
  extend(writers, ms)
end
if not mode then
  left = math.max(1, tonumber(redis.call('ZSCORE', stamps, ahead) or now + 1) - now)
end
return {0, left, ahead ~= '' and ahead or writer_of(name, about), queued}
