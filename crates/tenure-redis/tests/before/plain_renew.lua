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

-- Checks and extends many locks that are strings, and refreshes the stamps of their waiters, all in one slot. Creates
-- and shortens nothing; with a lease of 0 it only checks.
-- Keys:      for each claim: name, about, waiters, stamps. While a slot migrates: for one claim, only the first of
--            these, which its hold cannot exist without; all of them are at the end of the arguments
-- Arguments: number of keys at the end of the arguments, then for each claim: token, id, lease ms, stamp ms
-- Reply:     for each claim: 1 held; 2 waiting; 0 neither; 3 unknown, because a key is on another node
local apart, now, reply = tonumber(ARGV[1]), clock(), {}
local keys = apart == 0 and KEYS or {unpack(ARGV, #ARGV - apart + 1)}
for at = 2, #ARGV - apart, 4 do
  local name, about, waiters, stamps = unpack(keys, at - 1, at + 2)
  local token, id, lease, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local found = 0
  -- A key that another program has overwritten must not make the renewal of all others fail.
  local held = redis.pcall('GET', name)
  if meant(held, about, token, id) then
    keep(name, about, id, lease)
    found = 1
  else
    local place = here(redis.pcall('ZSCORE', waiters, id))
    if place and apart ~= 0 and not is_here(stamps) then
      found = 3
    elseif place then
      stamp(waiters, stamps, about, {id}, ms, now)
      found = 2
    elseif place == nil then
      found = 3
    end
  end
  reply[#reply + 1] = found
end
return reply
