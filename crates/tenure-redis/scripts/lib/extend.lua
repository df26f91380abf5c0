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
