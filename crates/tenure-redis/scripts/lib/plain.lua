-- Whether the holder is meant: by its token, and where that may be used for one hold after another, by its hold too. Of
-- locks that others wrote there is nothing but the token; with '' for an id any hold of that token is meant, and with
-- an id alone the hold, whatever its token.
local function meant(held, about, token, id)
  if held == token and (token == id or id == '') then
    return true
  end
  if not held or (held ~= token and token ~= id) then
    return false
  end
  return redis.call('HGET', about, 'hold') == id and redis.call('HGET', about, 'holder') == held
end

-- Never shortens. A stranger's lock without an end keeps that; ours always has one.
local function keep(name, about, id, ms)
  if id ~= '' or redis.call('PTTL', name) ~= -1 then
    extend(name, ms)
    extend_here(about, ms)
  end
end

-- How many times the holder is inside: for people, since a string has no place for it.
local function count(about, held, holds)
  local since, who = string.match(redis.call('HGET', about, held) or '', '^%S+ (%S+) %S+ (.*)$')
  if since then
    redis.call('HSET', about, held, '- ' .. since .. ' ' .. holds .. ' ' .. who)
  end
end
