-- One attempt on a lock or an election.
-- Keys:      name, fence, about, waiters, stamps
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait),
--            publish command, channel of observers ('' if there are none)
-- Reply:     {1, fence} held; {0, ms left} busy; {2} a re-entry found nothing; {3} a read/write lock; {4} no TTL
local name, fences, about, waiters, stamps = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local left = redis.call('PTTL', name)
if left ~= -2 and redis.call('HEXISTS', name, id) == 1 then
  if holds ~= '1' then
    redis.call('HSET', name, id, holds)
  end
  extend(name, lease)
  extend(about, lease)
  return {1, fence_of(about, id)}
end
if holds ~= '1' then
  return {2}
end

if left == -2 then
  local _, micros = clock()
  local fence = draw(fences, ARGV[4], micros)
  redis.call('HSET', name, id, 1)
  redis.call('PEXPIRE', name, lease)
  if ARGV[6] ~= '' then
    leave(waiters, waiters, stamps, about, id)
  end
  describe(about, id, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  extend(about, lease)
  if ARGV[8] ~= '' then
    redis.pcall(ARGV[7], ARGV[8], '1')
  end
  return {1, fence}
end

if redis.call('HEXISTS', name, 'mode') == 1 then
  return {3}
end
if left == -1 then
  return {4}
end
if ARGV[6] ~= '' then
  local ms = tonumber(ARGV[6])
  local now, micros = clock()
  bury(waiters, waiters, stamps, about, now)
  if redis.call('ZADD', waiters, 'NX', micros, id) == 1 then
    redis.call('HSET', about, id, '- ' .. micros .. ' 0 ' .. ARGV[5])
  end
  stamp(waiters, stamps, about, id, ms, now)
end
return {0, left}
