-- Gives permits back, or leaves the wait for them.
-- Keys:      name (free permits), ends, our ends, about, waiters, stamps
-- Arguments: id, how many (if nothing else is known), publish command, channel
-- Reply:     1 they were there; 0 there was nothing of this id
local name, ends, ours, about, waiters, stamps = unpack(KEYS)
local id = ARGV[1]
local now = clock()
local reaped = reap(name, ends, ours, now)
local text = redis.call('HGET', about, id)
local n = math.max(tonumber(ARGV[2]), text and tonumber(string.match(text, '^%S+ %S+ (%d+) ')) or 0)
local back = 0
for i = 1, n do
  local each = permit(id, i)
  redis.call('ZREM', ours, each)
  back = back + redis.call('ZREM', ends, each)
end
if back > 0 then
  redis.call('HDEL', about, id)
  if redis.call('EXISTS', name) == 1 then
    redis.call('INCRBY', name, back)
  end
end
if back + reaped > 0 then
  tell(ARGV[3], ARGV[4], name)
end
if back > 0 then
  return 1
end
return leave(waiters, waiters, stamps, about, id)
