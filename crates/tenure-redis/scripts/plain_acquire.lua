-- One attempt on a lock that is a string, as in `SET key token NX PX ms`.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, lease ms, holds, who, stamp ms ('' if it does not wait)
-- Reply:     {1} held; {0, ms left, id of the hold if it is one of ours, which publishes its release, else ''} busy;
--            {2} a re-entry found no hold
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
  tidy(about, stamps)
  describe(about, token, '- ' .. micros .. ' 1 ' .. ARGV[5])
  -- Written even if it is the token itself: the previous holder's value may still be there, and would be taken for this
  -- hold.
  redis.call('HSET', about, 'hold', id)
  extend(about, lease)
  return {1}
end

if ARGV[6] ~= '' then
  local now, micros = clock()
  bury(waiters, waiters, stamps, about, now)
  queue_up(waiters, stamps, about, id, ARGV[5], tonumber(ARGV[6]), now, micros)
end
local known = redis.call('HMGET', about, 'holder', 'hold')
return {0, redis.call('PTTL', name), known[1] == held and known[2] or ''}
