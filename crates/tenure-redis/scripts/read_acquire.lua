-- One attempt on the read half of a read/write lock. free/read_acquire.lua comes before it.
-- Keys:      name, fence, about, waiters, writers, stamps, timeout of this reader, record of the writer
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait),
--            field of the caller's own write hold ('' if there is none), its id
-- Reply:     {1, fence} held; {0, ms left, first waiter in the way or writer, when it queued in microseconds} busy;
--            {2} a re-entry found no hold; {3} it is another kind of lock; {4} the key has no TTL
local name, fences, about, waiters, writers, stamps, timeout, writer = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]

if redis.call('HEXISTS', name, id) == 1 then
  local record = redis.call('GET', timeout)
  if record then
    if holds ~= '1' then
      redis.call('HSET', name, id, holds)
    end
    extend(timeout, lease)
    extend(name, lease)
    return {1, fence_again(fence_in(record), fences, ARGV[4], '0 ' .. ARGV[5], function(text)
      redis.call('SET', timeout, text, 'KEEPTTL')
    end)}
  end
  redis.call('HDEL', name, id)
end
if holds ~= '1' then
  return {2}
end

left = redis.call('PTTL', name)
local mode = left ~= -2 and redis.call('HGET', name, 'mode')
if left ~= -2 and not mode then
  return {3}
end
if left == -1 then
  return {4}
end
local under = mode == 'write' and ARGV[7] ~= '' and redis.call('HEXISTS', name, ARGV[7]) == 1
local now, micros = clock()
local ahead = ''
if not under and redis.call('EXISTS', writers) == 1 then
  -- Writers of ours that queued earlier go first, or a stream of readers would starve them.
  bury(waiters, writers, stamps, about, now)
  local first = redis.call('ZRANGE', writers, 0, 0, 'WITHSCORES')
  local mine = redis.call('ZSCORE', waiters, id)
  if first[1] and (not mine or tonumber(first[2]) < tonumber(mine)) then
    ahead = first[1]
  end
end

if ahead == '' and (under or mode ~= 'write') then
  leave(waiters, writers, stamps, about, id)
  local fence = (under and fence_of_writer(writer, ARGV[8])) or draw(fences, ARGV[4], micros)
  if not mode then
    redis.call('HSET', name, 'mode', 'read')
  end
  redis.call('HSET', name, id, 1)
  redis.call('SET', timeout, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5], 'PX', lease)
  extend(name, lease)
  return {1, fence}
end

local queued = ''
if ARGV[6] ~= '' then
  queued = queue_up(waiters, stamps, about, id, ARGV[5], tonumber(ARGV[6]), now, micros)
  tidy(about, stamps)
end
if mode ~= 'write' then
  left = math.max(1, tonumber(redis.call('ZSCORE', stamps, ahead) or now + 1) - now)
end
return {0, left, ahead ~= '' and ahead or writer_of(name, writer, about), queued}
