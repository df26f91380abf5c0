-- Forces the release of a lock, fair or not, held through another library, and wakes everybody who may wait for it.
-- Keys:      name, about, queue, scores, stamps
-- Arguments: holder, publish command, channel, prefix of a fair waiter's channel, to which its id is appended,
--            channel of observers
-- Reply:     1 the holder held it; 0 it did not
local name, about, queue, scores, stamps = unpack(KEYS)
local holder, publish = ARGV[1], ARGV[2]

if redis.call('HEXISTS', name, holder) == 0 then
  return 0
end
redis.call('DEL', name)
redis.call('HDEL', about, holder)
redis.pcall(publish, ARGV[3], '0')
redis.pcall(publish, ARGV[5], '0')
-- The hash does not show whether it was held as a fair lock, so the head of the fair queue is woken too.
local head = sweep(queue, scores, stamps, about, (clock()), redis.call('LINDEX', queue, 0))
if head then
  redis.pcall(publish, ARGV[4] .. head, '0')
end
return 1
