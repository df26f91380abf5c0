-- A lock in Redisson's layout, without a library: acquire, not re-entered.
-- KEYS: name. ARGV: lease in ms, owner. Reply: nil if acquired, or the remaining ms of the holder.
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])
