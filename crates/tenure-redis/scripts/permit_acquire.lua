-- One attempt on permits of a semaphore.
-- Keys:      name (free permits), ends, our ends, fence, about, waiters, stamps, mark
-- Arguments: id, lease ms, how many, size if there is none, slack ms, fence retention ms (0: Redisson's counter), who,
--            stamp ms ('' if it does not wait), publish command, channel
-- Reply:     {1, fence} held; {0, ms left} busy (-1: nobody has any)
local name, ends, ours, fences, about, waiters, stamps, mark = unpack(KEYS)
local id, lease, n, slack = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local now, micros = clock()
if reap(name, ends, ours, now) > 0 then
  tell(ARGV[9], ARGV[10], name)
end
local free = tonumber(redis.call('GET', name))
if not free then
  free = tonumber(ARGV[4]) - redis.call('ZCARD', ends)
  redis.call('SET', name, free)
  redis.call('SET', mark, 'permits')
end

if redis.call('ZSCORE', ends, permit(id, 1)) then
  put(ends, ours, id, n, now + lease, slack)
  extend(about, lease)
  extend(ours, lease + slack)
  return {1, fence_of(about, id)}
end
if free >= n then
  leave(waiters, waiters, stamps, about, id)
  local fence = draw(fences, ARGV[6], micros)
  redis.call('DECRBY', name, n)
  put(ends, ours, id, n, now + lease, slack)
  redis.call('HSET', about, id, fence .. ' ' .. micros .. ' ' .. n .. ' ' .. ARGV[7])
  extend(about, lease)
  extend(ours, lease + slack)
  -- A semaphore that Redisson gave a TTL ends as a whole.
  local ttl = redis.call('PTTL', name)
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
for _, set in ipairs({ends, ours}) do
  local soon = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if soon[2] then
    left = math.min(left, tonumber(soon[2]) - now)
  end
end
return {0, left < math.huge and math.max(1, left) or -1}
