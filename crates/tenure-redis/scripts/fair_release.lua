-- Releases a fair lock, or cancels a wait for it; or writes the hold count of a hold that stays.
-- free/fair_release.lua comes before it.
-- Keys:      name, about, queue, scores, stamps, fence
-- Arguments: id, holds left, lease ms, publish command, prefix of a waiter's channel, to which its id is appended, fence
--            retention ms (0: Redisson's counter)
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, about, queue, scores, stamps, fences = unpack(KEYS)
local id = ARGV[1]

if ARGV[2] ~= '0' then
  if redis.call('HEXISTS', name, id) == 0 then
    return 0
  end
  local lease = tonumber(ARGV[3])
  redis.call('HSET', name, id, ARGV[2])
  extend(name, lease)
  return 1
end

if freed == 0 then
  freed = give_up(queue, scores, stamps, about, {id})
  head = redis.call('LINDEX', queue, 0)
else
  freed = 1
end
if not head or redis.call('EXISTS', name) == 1 then
  return freed
end

-- Grants to the new head of the queue if it is watching, and wakes it, also if the previous head left without ever
-- holding the lock.
local now, micros = clock()
local stamp = tonumber(redis.call('ZSCORE', stamps, head) or 0)
if stamp <= now then
  head = sweep(queue, scores, stamps, about, now, head)
  stamp = head and tonumber(redis.call('ZSCORE', stamps, head) or 0)
end
if not head then
  return freed
end
local message = '0'
local record = stamp > now and redis.call('HGET', about, head) or ''
local lease, attempt, who = string.match(record, '^%-(%d+):(%d+) %d+ %d+ (.*)$')
-- Another program may have overwritten the key of the fence: the head finds out by itself.
local drawn, fence = false
if lease then
  drawn, fence = pcall(draw, fences, ARGV[6], micros)
end
if drawn then
  -- It may be dead. Its hold lasts for as long as it would have been waited for.
  local ms = math.floor(math.min(tonumber(lease), stamp - now))
  pop_head(queue, scores, stamps, about, head, record)
  redis.call('HSET', name, head, 1, head .. RECORD, fence .. ' ' .. micros .. ' 0 ' .. who)
  redis.call('PEXPIRE', name, ms)
  message = 'granted ' .. attempt .. ' ' .. fence .. ' ' .. ms
end
redis.pcall(ARGV[4], ARGV[5] .. head, message)
return freed
