-- Releases a lock that is a string, or cancels a wait for it; or extends a hold that stays and writes its hold count.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, holds left, lease ms, publish command, channel
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, about, waiters, stamps = unpack(KEYS)
local token, id = ARGV[1], ARGV[2]

local held = redis.call('GET', name)
if not meant(held, about, token, id) then
  if ARGV[3] ~= '0' then
    return 0
  end
  redis.call('HDEL', about, id)
  return leave(waiters, waiters, stamps, about, id)
end
if ARGV[3] ~= '0' then
  count(about, held, ARGV[3])
  keep(name, about, id, tonumber(ARGV[4]))
  return 1
end
redis.call('DEL', name)
redis.call('HDEL', about, held, 'holder', 'hold')
redis.pcall(ARGV[5], ARGV[6], '0')
return 1
