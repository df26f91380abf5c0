-- Forces the release of a permit held through another library.
-- Keys:      name (number of free permits), ends, our ends
-- Arguments: permit, publish command, channel
-- Reply:     1 the permit was in use; 0 it was not
local name, ends, ours = unpack(KEYS)

redis.call('ZREM', ours, ARGV[1])
if redis.call('ZREM', ends, ARGV[1]) == 0 then
  return 0
end
if redis.call('EXISTS', name) == 1 then
  redis.call('INCRBY', name, 1)
end
tell(ARGV[2], ARGV[3], name)
return 1
