-- One attempt on a fair lock. free/fair_acquire.lua comes before it.
-- Keys:      name, fence, about, queue, scores, stamps
-- Arguments: id, lease ms, holds, fence retention ms (0: Redisson's counter), who, stamp ms ('' if it does not wait),
--            patience ms, mark of its record while it waits (see queue_fair)
-- Reply:     {1, fence} held; {0, ms left, head of the queue or holder, when it queued in microseconds} busy; {2} a
--            re-entry found no hold; {3} it is a read/write lock; {4} the key has no TTL
local name, fences, about, queue, scores, stamps = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local now, micros = clock()
if left ~= -2 then
  local held, record, mode = unpack(redis.call('HMGET', name, id, id .. RECORD, 'mode'))
  if held then
    if holds ~= '1' then
      redis.call('HSET', name, id, holds)
    end
    extend(name, lease)
    -- A release of an earlier version of ours grants with the record in the other hash.
    local fence = fence_in(record) or fence_of(about, id)
    return {1, fence_again(fence, fences, ARGV[4], '0 ' .. ARGV[5], function(text)
      redis.call('HSET', name, id .. RECORD, text)
    end)}
  end
  -- Must come before the sweep: the waiters of a read/write lock have their stamps under the same key.
  if mode and holds == '1' then
    return {3}
  end
end
if holds ~= '1' then
  return {2}
end

if left ~= -2 or head ~= id then
  head = sweep(queue, scores, stamps, about, now, head)
end
if left == -2 and (not head or head == id) then
  if head then
    pop_head(queue, scores, stamps, about, id, redis.call('HGET', about, id))
  end
  local fence = draw(fences, ARGV[4], micros)
  redis.call('HSET', name, id, 1, id .. RECORD, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  redis.call('PEXPIRE', name, lease)
  return {1, fence}
end

if left == -1 then
  return {4}
end
if left < 0 then
  left = 0
end
local queued = ''
if ARGV[6] ~= '' then
  queued = queue_fair(queue, scores, stamps, about, id, ARGV[5], ARGV[8], tonumber(ARGV[6]), ARGV[7], left, now, micros)
  tidy(about, stamps)
  head = head or id
end
if left == 0 and head and head ~= id then
  -- Free, but not our turn: the head expires at its stamp, or at its score if it has no stamp.
  local over = redis.call('ZSCORE', stamps, head) or redis.call('ZSCORE', scores, head)
  left = math.max(1, tonumber(over) - now)
end
local ahead = head
if not head or head == id then
  ahead = holder_of(name)
end
return {0, left, ahead, queued}
