-- One attempt on a lock that is a string, as most of the world has it.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, lease ms, holds, who, stamp ms ('' if it does not wait)
-- Reply:     {1} held; {0, ms left, 1 if its release will be told} busy; {2} a re-entry found nothing
local name, about, waiters, stamps = unpack(KEYS)
local token, id, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

local held = redis.call('GET', name)
if held and meant(held, about, token, id) then
  if ARGV[4] ~= '1' then
    count(about, held, ARGV[4])
  end
  keep(name, about, id, lease)
  return {1}
end
if ARGV[4] ~= '1' then
  return {2}
end

if not held then
  local _, micros = clock()
  redis.call('SET', name, token, 'PX', lease)
  if ARGV[6] ~= '' then
    leave(waiters, waiters, stamps, about, id)
  end
  describe(about, token, '- ' .. micros .. ' 1 ' .. ARGV[5])
  if token ~= id then
    redis.call('HSET', about, 'hold', id)
  end
  extend(about, lease)
  return {1}
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
return {0, redis.call('PTTL', name), redis.call('HGET', about, 'holder') == held and 1 or 0}
