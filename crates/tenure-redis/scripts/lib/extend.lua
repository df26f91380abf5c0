-- Never shortens: a key lives for at least `ms` more. With 0 nothing is done.
local function extend(key, ms)
  if ms > 0 and redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end
