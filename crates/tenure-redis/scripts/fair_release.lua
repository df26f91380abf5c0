-- Releases a fair lock, or cancels a wait for it; or writes the hold count of a hold that stays.
-- Keys:      name, about, queue, scores, stamps
-- Arguments: id, holds left, lease ms, publish command, prefix of a waiter's channel, to which its id is appended
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, about, queue, scores, stamps = unpack(KEYS)
local id = ARGV[1]

if ARGV[2] ~= '0' then
  if redis.call('HEXISTS', name, id) == 0 then
    return 0
  end
  local lease = tonumber(ARGV[3])
  redis.call('HSET', name, id, ARGV[2])
  extend(name, lease)
  extend(about, lease)
  return 1
end

local free, freed = true, 1
if redis.call('HEXISTS', name, id) == 1 then
  redis.call('DEL', name)
  redis.call('HDEL', about, id, 'holder')
else
  freed = give_up(queue, scores, stamps, about, {id})
  free = redis.call('EXISTS', name) == 0
end
-- Wakes the new head of the queue, also if the previous head left without ever holding the lock.
if free then
  local now = clock()
  local head = redis.call('LINDEX', queue, 0)
  local stamp = head and redis.call('ZSCORE', stamps, head)
  if head and not (stamp and tonumber(stamp) > now) then
    head = sweep(queue, scores, stamps, about, now)
  end
  if head then
    redis.pcall(ARGV[4], ARGV[5] .. head, '0')
  end
end
return freed
