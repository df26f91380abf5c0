-- Gives permits back, or cancels a wait for them.
-- Keys:      name (free permits), ends, our ends, about, waiters, stamps
-- Arguments: id, how many (if nothing else is known), publish command, channel, slack ms
-- Reply:     1 they were there; 0 there was nothing of this id
local name, ends, ours, about, waiters, stamps = unpack(KEYS)
local id = ARGV[1]
local now = clock()
local reaped = reap(name, ends, ours, about, tonumber(ARGV[5]), now)
local back = give(name, drop(ends, ours, about, id, tonumber(ARGV[2])))
if back + reaped > 0 then
  tell(ARGV[3], ARGV[4], name)
end
if back > 0 then
  return 1
end
redis.call('HDEL', about, id)
return leave(waiters, waiters, stamps, about, id)
