-- Extends the TTL of a key to at least `ms`; never shortens it. Does nothing with 0.
local function extend(key, ms)
  if ms > 0 and redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

-- Like extend, with one command where the server can compare, and the key has a TTL. Returns whether that was enough.
local function lengthen(key, ms)
  local enough = ms > 0 and redis.pcall('PEXPIRE', key, ms, 'GT') == 1
  if not enough then
    extend(key, ms)
  end
  return enough
end
