-- One attempt on permits of a semaphore.
-- Keys:      name (free permits), ends, our ends, fence, about, waiters, stamps, mark
-- Arguments: id, lease ms, how many, size if there is none, slack ms, fence retention ms (0: Redisson's counter), who,
--            stamp ms ('' if it does not wait), publish command, channel
-- Reply:     {1, fence} held; {0, ms left} busy (-1: nobody has any); {3, what it is} another kind of number; {5, ms}
--            the semaphore ends before the lease would
local name, ends, ours, fences, about, waiters, stamps, mark = unpack(KEYS)
local id, lease, n, slack = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local raw = redis.call('GET', name)
if raw and not string.match(raw, '^%-?%d+$') then
  return redis.error_reply('WRONGTYPE the value is not a number')
end
local free = tonumber(raw)
local is = free and kind_of(mark)
if is and is ~= 'permits' then
  return {3, is}
end
-- Redisson may have given the semaphore as a whole a TTL.
local ttl = redis.call('PTTL', name)
if ttl >= 0 and ttl < lease then
  return {5, ttl}
end

local now, micros = clock()
local reaped = reap(name, ends, ours, about, slack, now)
if not free then
  free = tonumber(ARGV[4]) - redis.call('ZCARD', ends)
  redis.call('SET', name, free)
  redis.call('SET', mark, 'permits')
else
  free = free + reaped
end
if reaped > 0 then
  tell(ARGV[9], ARGV[10], name)
end

if redis.call('ZSCORE', ours, id) then
  if alive(ends, id, n) == n then
    put(ends, ours, about, id, n, lease, slack, now)
    return {1, fence_of(about, id)}
  end
  -- Others took some back meanwhile, and may have given them away: what is left of them is given back, too.
  free = free + give(name, drop(ends, ours, about, id, n))
end
if free >= n then
  leave(waiters, waiters, stamps, about, id)
  local fence = draw(fences, ARGV[6], micros)
  redis.call('DECRBY', name, n)
  redis.call('HSET', about, id, fence .. ' ' .. micros .. ' ' .. n .. ' ' .. ARGV[7])
  put(ends, ours, about, id, n, lease, slack, now)
  if ttl > 0 then
    redis.call('PEXPIRE', ends, ttl)
  end
  return {1, fence}
end
if ARGV[8] ~= '' then
  bury(waiters, waiters, stamps, about, now)
  if redis.call('ZADD', waiters, 'NX', micros, id) == 1 then
    redis.call('HSET', about, id, '- ' .. micros .. ' 0 ' .. ARGV[7])
  end
  stamp(waiters, stamps, about, id, tonumber(ARGV[8]), now)
end
local left = math.huge
for set, later in pairs({[ends] = slack, [ours] = 0}) do
  local soon = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if soon[2] then
    left = math.min(left, tonumber(soon[2]) + later - now)
  end
end
return {0, left < math.huge and math.max(1, left) or -1}
