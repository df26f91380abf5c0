-- Gives back permits that are in use, before most functions of the library exist.
local until_ms = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0)
if until_ms > 0 and until_ms > clock() then
  local text = redis.call('HGET', KEYS[4], ARGV[1]) or ''
  local n = math.max(tonumber(ARGV[2]), tonumber(string.match(text, '^%d+ %S+ (%d+) ') or 0))
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('HDEL', KEYS[4], ARGV[1])
  local back = redis.call('ZREM', KEYS[2], unpack(permits_of(ARGV[1], n)))
  if back > 0 then
    local free = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('INCRBY', KEYS[1], back) or 0
    -- Redisson cannot handle a negative number.
    redis.pcall(ARGV[3], ARGV[4], math.max(0, free))
  end
  return back > 0 and 1 or 0
end
