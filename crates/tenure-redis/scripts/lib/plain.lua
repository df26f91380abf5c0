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
