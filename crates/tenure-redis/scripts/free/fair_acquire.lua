-- Grants a lock that is free and that nobody queues for, before the other functions of the library exist: creating them
-- would cost as much as the rest.
local left = redis.call('PTTL', KEYS[1])
local head = redis.call('LINDEX', KEYS[4], 0)
if left == -2 and not head and ARGV[3] == '1' then
  local _, micros = clock()
  local fence = draw(KEYS[2], ARGV[4], micros)
  redis.call('HSET', KEYS[1], ARGV[1], 1, ARGV[1] .. ':d', fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, fence}
end
