-- Admits a reader where no writer of ours waits, before the other functions of the library exist.
local left = redis.call('PTTL', KEYS[1])
if ARGV[3] == '1' and left ~= -1 then
  local mode, mine = 'read', false
  if left ~= -2 then
    mode, mine = unpack(redis.call('HMGET', KEYS[1], 'mode', ARGV[1]))
  end
  if mode == 'read' and not mine and redis.call('EXISTS', KEYS[4]) == 0 then
    local _, micros = clock()
    local fence = draw(KEYS[2], ARGV[4], micros)
    redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
    redis.call('SET', KEYS[7], fence .. ' ' .. micros .. ' 0 ' .. ARGV[5], 'PX', ARGV[2])
    if left < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return {1, fence}
  end
end
