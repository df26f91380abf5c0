-- Releases a lock that nobody queues for, before the functions of the library exist.
local freed = ARGV[2] == '0' and redis.call('HDEL', KEYS[1], ARGV[1], ARGV[1] .. ':d') or 0
local head = redis.call('LINDEX', KEYS[3], 0)
if freed > 0 and not head then
  return 1
end
