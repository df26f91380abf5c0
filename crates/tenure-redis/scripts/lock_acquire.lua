-- One attempt on a lock or an election.
-- Keys:      name, fence, about, waiters, stamps
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if its wait is not
--            recorded), publish command, channel of observers ('' for a lock), how many fences to reserve
-- Reply:     {1, fence, number of fences reserved after it} held; {0, ms left, holder} busy; {2} a re-entry found no hold; {3} it is a read/write lock;
--            {4} the key has no TTL
local name, fences, about, waiters, stamps = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local left = redis.call('PTTL', name)
if left == -2 then
  if holds ~= '1' then
    return {2}
  end
  local _, micros = clock()
  local fence, spare = draw_range(fences, ARGV[4], micros, tonumber(ARGV[9]))
  redis.call('HSET', name, id, 1, id .. RECORD, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  redis.call('PEXPIRE', name, lease)
  if ARGV[6] ~= '' then
    leave(waiters, waiters, stamps, about, id)
  end
  if ARGV[8] ~= '' then
    redis.pcall(ARGV[7], ARGV[8], '1')
  end
  return {1, fence, spare}
end

local held, record, mode = unpack(redis.call('HMGET', name, id, id .. RECORD, 'mode'))
if held then
  if holds ~= '1' then
    redis.call('HSET', name, id, holds)
  end
  extend(name, lease)
  local fence = fence_in(record)
  if not fence then
    local _, micros = clock()
    fence = draw(fences, ARGV[4], micros)
    redis.call('HSET', name, id .. RECORD, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  end
  return {1, fence}
end
if holds ~= '1' then
  return {2}
end
if mode then
  return {3}
end
if left == -1 then
  return {4}
end
if ARGV[6] ~= '' then
  local now, micros = clock()
  bury(waiters, waiters, stamps, about, now)
  queue_up(waiters, stamps, about, id, ARGV[5], tonumber(ARGV[6]), now, micros)
  tidy(about, stamps)
end
-- A claim of the same process can hold the lock without knowing it yet: its attempt may have been executed once more
-- after it was answered.
return {0, left, holder_of(name)}
