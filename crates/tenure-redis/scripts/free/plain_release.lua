-- Releases most holds before the functions of the library exist.
if ARGV[3] == '0' and ARGV[1] == ARGV[2] and redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if ARGV[7] ~= '' then
    redis.call('HDEL', KEYS[2], ARGV[1], 'holder', 'hold')
  end
  redis.pcall(ARGV[5], ARGV[6], '0')
  return 1
end
