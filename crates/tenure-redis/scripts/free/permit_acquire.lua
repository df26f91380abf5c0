-- Grants permits that are free and that nobody of ours waits for, before the other functions of the library exist.
local raw, mark_of = unpack(redis.call('MGET', KEYS[1], KEYS[8]))
local ttl = redis.call('PTTL', KEYS[1])
local n = tonumber(ARGV[3])
if raw and ttl == -1 and string.find(raw, '^%d+$') and tonumber(raw) >= n
  and (not mark_of or mark_of == 'permits') and redis.call('EXISTS', KEYS[6]) == 0 then
  local now, micros = clock()
  local ends_at = now + tonumber(ARGV[2])
  local fence = draw(KEYS[4], ARGV[6], micros)
  -- A repeat finds its own below.
  if redis.call('ZADD', KEYS[3], 'NX', ends_at, ARGV[1]) == 1 then
    redis.call('HSET', KEYS[5], ARGV[1], fence .. ' ' .. micros .. ' ' .. n .. ' ' .. ARGV[7])
    -- Redisson's set has the slack on top, and ours must outlive it.
    local slack, some = tonumber(ARGV[5]), {}
    for i = 1, n do
      some[2 * i - 1], some[2 * i] = ends_at + slack, permit(ARGV[1], i)
    end
    redis.call('ZADD', KEYS[2], unpack(some))
    -- Last: an error before it costs no permit.
    local free = redis.call('DECRBY', KEYS[1], n)
    extend(KEYS[3], ends_at + slack - now)
    extend(KEYS[5], ends_at + slack - now)
    return {1, fence, free + redis.call('ZCARD', KEYS[2])}
  end
end
