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

-- Whether the lock is held by this claim: compares the token and, because a token may be used for one hold after
-- another, the hold id. Locks of other libraries have only a token. With an id of '' any hold of that token matches;
-- with a token equal to the id the hold matches, whatever its token.
local function meant(held, about, token, id)
  if held == token and (token == id or id == '') then
    return true
  end
  if not held or (held ~= token and token ~= id) then
    return false
  end
  return redis.call('HGET', about, 'hold') == id and redis.call('HGET', about, 'holder') == held
end

-- Never shortens the TTL. A lock of another library without a TTL stays without one; ours always has one.
local function keep(name, about, id, ms)
  if id ~= '' or redis.call('PTTL', name) ~= -1 then
    extend(name, ms)
    extend_here(about, ms)
  end
end

-- Writes the hold count into the record, for inspection: a string has no room for it.
local function count(about, held, holds)
  local since, who = string.match(redis.call('HGET', about, held) or '', '^%S+ (%S+) %S+ (.*)$')
  if since then
    redis.call('HSET', about, held, '- ' .. since .. ' ' .. holds .. ' ' .. who)
  end
end

-- Releases a lock that is a string, or cancels a wait for it; or extends a hold that stays and writes its hold count.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, holds left, lease ms, publish command, channel
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, about, waiters, stamps = unpack(KEYS)
local token, id = ARGV[1], ARGV[2]

local held = redis.call('GET', name)
if not meant(held, about, token, id) then
  if ARGV[3] ~= '0' then
    return 0
  end
  redis.call('HDEL', about, id)
  return leave(waiters, waiters, stamps, about, id)
end
if ARGV[3] ~= '0' then
  count(about, held, ARGV[3])
  keep(name, about, id, tonumber(ARGV[4]))
  return 1
end
redis.call('DEL', name)
redis.call('HDEL', about, held, 'holder', 'hold')
redis.pcall(ARGV[5], ARGV[6], '0')
return 1
