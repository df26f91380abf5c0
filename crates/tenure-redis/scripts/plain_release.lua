-- Releases a lock that is a string, or cancels a wait for it; or extends a hold that stays and writes its hold count.
-- free/plain_release.lua comes before it.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, holds left, lease ms, publish command, channel, '' if there is no record that was described
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
  local text = redis.call('HGET', about, held)
  if text then
    redis.call('HSET', about, held, (string.gsub(text, '^(%S+ %S+) %S+', '%1 ' .. ARGV[3])))
  end
  keep(name, id, tonumber(ARGV[4]))
  extend_here(about, tonumber(ARGV[4]))
  return 1
end
redis.call('DEL', name)
redis.call('HDEL', about, held, 'holder', 'hold')
redis.pcall(ARGV[5], ARGV[6], '0')
return 1
