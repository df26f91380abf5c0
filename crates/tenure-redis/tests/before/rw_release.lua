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

-- Releases either half of a read/write lock, or cancels a wait for it; or writes the hold count of a hold that stays.
-- Keys:      name, about, waiters, writers, stamps, timeout of this reader (of a writer: the name again)
-- Arguments: id, field, holds left, lease ms, publish command, channel, prefix of readers' timeout keys
-- Reply:     1 the hold or waiter existed; 0 it did not; error TRYAGAIN: the timeout key of a reader is on another
--            node
local name, about, waiters, writers, stamps, timeout = unpack(KEYS)
local id, field = ARGV[1], ARGV[2]
local reads = id == field

if redis.call('HEXISTS', name, field) == 0 or (reads and redis.call('EXISTS', timeout) == 0) then
  if ARGV[3] ~= '0' then
    return 0
  end
  local first = redis.call('ZRANGE', waiters, 0, 0)[1] == id or redis.call('ZSCORE', writers, id)
  -- Also removes the record of a hold whose lease has expired: with the hash gone, nothing else would find it.
  redis.call('HDEL', about, id)
  local was = leave(waiters, writers, stamps, about, id)
  if was == 1 and first then
    -- It may have been the only one that blocked those behind it in the queue.
    redis.pcall(ARGV[5], ARGV[6], '1')
  end
  return was
end
if ARGV[3] ~= '0' then
  local lease = tonumber(ARGV[4])
  redis.call('HSET', name, field, ARGV[3])
  if reads then
    extend(timeout, lease)
  end
  extend(name, lease)
  extend(about, lease)
  return 1
end

local below_writer = reads and redis.call('HGET', name, 'mode') == 'write'
local others
if not below_writer and redis.call('HLEN', name) > 2 then
  -- The hash lives as long as the longest lease of a reader. Only if this reader had the longest lease, the next
  -- longest is looked for. The search stops after 100 live readers: a hash that lives too long does not keep out our
  -- writers.
  local ttl = redis.call('PTTL', name)
  local longest = not reads or redis.call('PTTL', timeout) >= ttl - 1000
  others = look_at_readers(name, ARGV[7], field, function(left, live)
    return not longest or left >= ttl - 1000 or live >= 100
  end)
  if not others then
    return elsewhere()
  end
end
redis.call('HDEL', name, field)
if reads then
  redis.call('HDEL', about, id)
  redis.call('DEL', timeout)
else
  redis.call('HDEL', about, id, 'holder')
end
if below_writer then
  return 1
end
if others then
  remove_readers(name, about, others.dead)
end
if not others or others.live == 0 then
  redis.call('DEL', name)
  tell_gone(ARGV[5], ARGV[6], reads)
else
  if others.all then
    redis.call('PEXPIRE', name, others.longest)
  else
    extend(name, others.longest)
  end
  if not reads then
    -- Reads of the writer itself stay, and other readers may join them.
    redis.call('HSET', name, 'mode', 'read')
    tell_gone(ARGV[5], ARGV[6], false)
  end
end
return 1
