-- Whether the holder is meant: by its token, and where that may be used for one hold after another, by its hold too. Of
-- locks that others wrote there is nothing but the token; with '' for an id any hold of that token is meant.
local function meant(held, about, token, id)
  if held ~= token then
    return false
  end
  if token == id or id == '' then
    return true
  end
  local hold = redis.call('HGET', about, 'hold')
  return hold == id
end

-- How many times the holder is inside: for people, since a string has no place for it.
local function count(about, token, holds)
  local since, who = string.match(redis.call('HGET', about, token) or '', '^%S+ (%S+) %S+ (.*)$')
  if since then
    redis.call('HSET', about, token, '- ' .. since .. ' ' .. holds .. ' ' .. who)
  end
end
