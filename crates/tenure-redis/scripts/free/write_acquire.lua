-- Admits a writer where nobody else is, before the other functions of the library exist.
local left = redis.call('PTTL', KEYS[1])
if left == -2 and ARGV[3] == '1' and redis.call('EXISTS', KEYS[4]) == 0 then
  local _, micros = clock()
  local fence = draw(KEYS[2], ARGV[4], micros)
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[7], ARGV[1] .. ' ' .. fence .. ' ' .. micros .. ' 0 ' .. ARGV[5], 'PX', ARGV[2])
  return {1, fence}
end
