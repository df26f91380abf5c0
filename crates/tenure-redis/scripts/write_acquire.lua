-- One attempt on the write half of a read/write lock. free/write_acquire.lua comes before it.
-- Keys:      name, fence, about, waiters, writers, stamps, record of the writer
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait),
--            prefix of readers' timeout keys
-- Reply:     {1, fence} held; {0, ms left, first waiter in the way or writer, when it queued in microseconds} busy;
--            {2} a re-entry found no hold; {3} it is another kind of lock; {4} the key has no TTL; error TRYAGAIN:
--            the timeout key of a reader is on another node
local name, fences, about, waiters, writers, stamps, writer = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local field = id .. ':write'

if redis.call('HEXISTS', name, field) == 1 then
  if holds ~= '1' then
    redis.call('HSET', name, field, holds)
  end
  extend(name, lease)
  extend(writer, lease)
  return {1, fence_again(fence_of_writer(writer, id), fences, ARGV[4], '0 ' .. ARGV[5], function(text)
    redis.call('SET', writer, id .. ' ' .. text, 'PX', redis.call('PTTL', name))
  end)}
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
local now, micros = clock()
if mode == 'read' then
  -- An expired reader stays in the hash as long as other readers keep the hash alive.
  local readers = look_at_readers(name, ARGV[7])
  if not readers then
    return elsewhere()
  end
  remove_readers(name, readers.dead)
  if readers.live == 0 then
    redis.call('DEL', name)
    mode = false
  else
    left = readers.shortest
  end
end
local ahead = ''
if redis.call('EXISTS', waiters) == 1 then
  bury(waiters, writers, stamps, about, now)
  local first = redis.call('ZRANGE', waiters, 0, 0)[1]
  if first and first ~= id then
    ahead = first
  end
end

if not mode and ahead == '' then
  leave(waiters, writers, stamps, about, id)
  local fence = draw(fences, ARGV[4], micros)
  redis.call('HSET', name, 'mode', 'write', field, 1)
  redis.call('PEXPIRE', name, lease)
  redis.call('SET', writer, id .. ' ' .. fence .. ' ' .. micros .. ' 0 ' .. ARGV[5], 'PX', lease)
  return {1, fence}
end

local queued = ''
if ARGV[6] ~= '' then
  local ms = tonumber(ARGV[6])
  queued = queue_up(waiters, stamps, about, id, ARGV[5], ms, now, micros)
  redis.call('ZADD', writers, 'NX', queued, id)
  extend(writers, ms)
  tidy(about, stamps)
end
if not mode then
  left = math.max(1, tonumber(redis.call('ZSCORE', stamps, ahead) or now + 1) - now)
end
return {0, left, ahead ~= '' and ahead or writer_of(name, writer, about), queued}
