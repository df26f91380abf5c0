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

-- The id of the hold with this token, or '' if it is not one of ours.
local function hold_of(held, about)
  if string.find(held, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') then
    return held
  end
  local known = redis.call('HMGET', about, 'holder', 'hold')
  return known[1] == held and known[2] or ''
end

-- Never shortens the TTL. A lock of another library without a TTL stays without one; ours always has one.
local function keep(name, id, ms)
  if id ~= '' then
    lengthen(name, ms)
  elseif redis.call('PTTL', name) ~= -1 then
    extend(name, ms)
  end
end

-- Writes the record of a holder, or the hold count into the one that is there; with an empty count as it is. Replaces the
-- record of the holder before, which may have ended without a release. If it is only written now, what is left of the
-- lease says since when it is held.
local function record(name, about, held, id, holds, who, lease, lasts)
  local text = redis.call('HGET', about, held)
  local since, number, rest = string.match(text or '', '^%S+ (%S+) (%S+) (.*)$')
  if not since then
    local now = clock()
    since = string.format('%.0f', (now - math.max(0, lease - redis.call('PTTL', name))) * 1000)
  end
  local last = redis.call('HGET', about, 'holder')
  if last and last ~= held then
    redis.call('HDEL', about, last)
  end
  local count = holds ~= '' and holds or number or 1
  redis.call('HSET', about, held, '- ' .. since .. ' ' .. count .. ' ' .. (rest or who), 'holder', held)
  -- Also where it is the token itself: what the holder before left would be taken for this hold.
  if id ~= '' then
    redis.call('HSET', about, 'hold', id)
  end
  extend(about, tonumber(lasts))
end
