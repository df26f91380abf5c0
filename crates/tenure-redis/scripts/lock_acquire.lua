-- One attempt on a lock or an election, behind `free/lock_acquire`.
-- Keys:      name, fence; if its wait is recorded also about, waiters, stamps
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if its wait is not
--            recorded), publish command, channel of observers ('' for a lock), how many fences to reserve
-- Reply:     {1, fence, number of fences reserved after it} held; {0, ms left, holder} busy; {2} a re-entry found no hold;
--            {3} it is a read/write lock; {4} the key has no TTL
if left == -2 then
  if holds ~= '1' then
    return {2}
  end
  local granted = grant()
  leave(waiters, waiters, stamps, about, id)
  return granted
end

-- Most often somebody else holds it, in the only fields there are.
if holds == '1' and left ~= -1 and ARGV[6] == '' then
  local all = redis.call('HRANDFIELD', name, 3)
  local other = #all < 3
  for _, field in ipairs(all) do
    other = other and field ~= id and field ~= 'mode'
  end
  if other then
    return {0, left, holder_in(all[1])}
  end
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
