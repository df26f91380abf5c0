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

-- One attempt on a lock that is a string, as in `SET key token NX PX ms`.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, lease ms, holds, who, stamp ms ('' if it does not wait)
-- Reply:     {1} held; {0, ms left, id of the hold if it is one of ours, which publishes its release, else ''} busy;
--            {2} a re-entry found no hold
local name, about, waiters, stamps = unpack(KEYS)
local token, id, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

local held = redis.call('GET', name)
if held and meant(held, about, token, id) then
  if ARGV[4] ~= '1' then
    count(about, held, ARGV[4])
  end
  keep(name, about, id, lease)
  return {1}
end
if ARGV[4] ~= '1' then
  return {2}
end

if not held then
  local _, micros = clock()
  redis.call('SET', name, token, 'PX', lease)
  if ARGV[6] ~= '' then
    leave(waiters, waiters, stamps, about, id)
  end
  tidy(about, stamps)
  describe(about, token, '- ' .. micros .. ' 1 ' .. ARGV[5])
  -- Written even if it is the token itself: the previous holder's value may still be there, and would be taken for this
  -- hold.
  redis.call('HSET', about, 'hold', id)
  extend(about, lease)
  return {1}
end

if ARGV[6] ~= '' then
  local now, micros = clock()
  bury(waiters, waiters, stamps, about, now)
  queue_up(waiters, stamps, about, id, ARGV[5], tonumber(ARGV[6]), now, micros)
end
local known = redis.call('HMGET', about, 'holder', 'hold')
return {0, redis.call('PTTL', name), known[1] == held and known[2] or ''}
