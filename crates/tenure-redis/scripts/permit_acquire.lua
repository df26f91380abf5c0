-- One attempt on permits of a semaphore. free/permit_acquire.lua comes before it.
-- Keys:      name (number of free permits), ends, our ends, fence, about, waiters, stamps, mark
-- Arguments: id, lease ms, number of permits, size of the semaphore if it does not exist yet, slack ms, fence
--            retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait), publish command, channel
-- Reply:     {1, fence, size} held, without the size if it was held before; {0, ms left (-1: no permit is in use), our
--            hold that ends first, '', size} busy; {3, kind} it is in use as this kind; {5, ms left} the semaphore ends before the lease would; {6, size} it has fewer
--            permits; error WRONGTYPE: the key is not a number
local name, ends, ours, fences, about, waiters, stamps, mark = unpack(KEYS)
local id, lease, slack = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
-- MGET finds nothing where the type is another.
raw = redis.call('GET', name)
if raw and not string.match(raw, '^%-?%d+$') then
  return redis.error_reply('WRONGTYPE the value is not a number')
end
local free = tonumber(raw)
local is = free and kind_of(mark)
if is and is ~= 'permits' then
  return {3, is}
end
-- Redisson may have given the semaphore as a whole a TTL.
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
    local fence = fence_again(fence_of(about, id), fences, ARGV[6], n .. ' ' .. ARGV[7], function(text)
      redis.call('HSET', about, id, text)
    end)
    put(ends, ours, about, id, n, lease, slack, now)
    return {1, fence}
  end
  -- Others have reclaimed some of the permits and may have granted them again: the rest is given back too.
  free = free + give(name, drop(ends, ours, about, id, n))
end
local size = free + redis.call('ZCARD', ends)
if free >= n then
  leave(waiters, waiters, stamps, about, id)
  local fence = draw(fences, ARGV[6], micros)
  redis.call('DECRBY', name, n)
  redis.call('HSET', about, id, fence .. ' ' .. micros .. ' ' .. n .. ' ' .. ARGV[7])
  put(ends, ours, about, id, n, lease, slack, now)
  if ttl > 0 then
    redis.call('PEXPIRE', ends, ttl)
  end
  return {1, fence, size}
end
-- More permits than the semaphore has: the claim would wait forever, and so would everybody queued behind it.
if n > size then
  leave(waiters, waiters, stamps, about, id)
  return {6, size}
end
if ARGV[8] ~= '' then
  bury(waiters, waiters, stamps, about, now)
  queue_up(waiters, stamps, about, id, ARGV[7], tonumber(ARGV[8]), now, micros)
  tidy(about, stamps, function() return redis.call('ZCARD', ours) end, function(each)
    return redis.call('ZSCORE', ours, each)
  end)
end
local first = redis.call('ZRANGE', ours, 0, 0, 'WITHSCORES')
local other = redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')
local left = math.min(tonumber(first[2]) or math.huge, (tonumber(other[2]) or math.huge) + slack) - now
return {0, left < math.huge and math.max(1, left) or -1, first[1] or '', '', size}
