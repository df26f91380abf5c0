-- One attempt on a lock that is a string, as in `SET key token NX PX ms`. free/plain_acquire.lua comes before it.
-- Keys:      name, about, waiters, stamps
-- Arguments: token, id, lease ms, holds, who ('' if it is not to be recorded: never
--            with a token that is not the id), stamp ms ('' if it does not wait), ms that
--            the record of a holder lasts
-- Reply:     {1} held; {0, ms left, id of the hold if it is one of ours, which publishes its release, else ''} busy;
--            {2} a re-entry found no hold
local name, about, waiters, stamps = unpack(KEYS)
local token, id, lease, holds, who = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local held = redis.call('GET', name)
if held and meant(held, about, token, id) then
  if holds ~= '1' then
    record(name, about, held, id, holds, who, lease, ARGV[7])
  end
  keep(name, id, lease)
  extend_here(about, lease)
  return {1}
end
if holds ~= '1' then
  return {2}
end

if not held then
  redis.call('SET', name, token, 'PX', lease)
  if ARGV[6] ~= '' then
    leave(waiters, waiters, stamps, about, id)
  end
  if who ~= '' then
    tidy(about, stamps)
    record(name, about, token, id, 1, who, lease, ARGV[7])
  end
  return {1}
end

if ARGV[6] ~= '' then
  local now, micros = clock()
  bury(waiters, waiters, stamps, about, now)
  queue_up(waiters, stamps, about, id, who, tonumber(ARGV[6]), now, micros)
end
return {0, redis.call('PTTL', name), hold_of(held, about)}
