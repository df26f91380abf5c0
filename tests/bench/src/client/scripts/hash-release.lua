-- A lock in Redisson's layout, without a library: release, and tell who waits.
-- KEYS: name, channel. ARGV: owner. Reply: nil if it is somebody else's, 1 if released.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
