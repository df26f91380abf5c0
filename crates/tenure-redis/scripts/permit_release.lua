-- Releases permits, or cancels a wait for them. free/permit_release.lua comes before it.
-- Keys:      name (number of free permits), ends, our ends, about, waiters, stamps
-- Arguments: id, number of permits if there is no record of it, publish command, channel, slack ms
-- Reply:     1 the hold or waiter existed; 0 it did not
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
