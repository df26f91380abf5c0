-- Releases a lock or an election, or cancels a wait for it; or writes the hold count of a hold that stays. This part
-- releases; the rest is in `lock_release`.
-- Keys:      name; if it may be a wait also about, waiters, stamps
-- Arguments: id, holds left, lease ms, publish command, channel, channel of observers ('' for a lock)
-- Reply:     1 the hold or waiter existed; 0 it did not
local name, about, waiters, stamps = unpack(KEYS)
local id = ARGV[1]

if ARGV[2] == '0' and redis.call('HDEL', name, id, id .. RECORD) > 0 then
  -- A user who may not publish still releases: pcall ignores the error here and in all scripts, and waiters poll.
  redis.pcall(ARGV[4], ARGV[5], '0')
  if ARGV[6] ~= '' then
    redis.pcall(ARGV[4], ARGV[6], '0')
  end
  return 1
end
