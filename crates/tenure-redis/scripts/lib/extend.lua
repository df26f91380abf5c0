-- Extends the TTL of a key to at least `ms`; never shortens it. Does nothing with 0.
local function extend(key, ms)
  if ms > 0 and redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end
