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
