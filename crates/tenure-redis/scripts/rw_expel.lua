-- Forces the release of either half of a read/write lock held through another library.
-- Keys:      name, about
-- Arguments: holder, its field, publish command, channel, prefix of readers' timeout keys
-- Reply:     1 the holder held it; 0 it did not; error TRYAGAIN: the timeout key of a reader is on another node
local name, about = unpack(KEYS)
local holder, field = ARGV[1], ARGV[2]
local reads = holder == field
local holds = tonumber(redis.call('HGET', name, field))

if not holds then
  return 0
end
local others = look_at_readers(name, ARGV[5], field)
if not others or (reads and not time_of(ARGV[5], holder, holds)) then
  return elsewhere()
end
redis.call('HDEL', name, field)
redis.call('HDEL', about, holder)
if reads then
  -- Redisson has one timeout key for each re-entry.
  for n = 1, math.min(holds, 1000) do
    redis.call('DEL', ARGV[5] .. ':' .. holder .. ':rwlock_timeout:' .. n)
  end
  if redis.call('HGET', name, 'mode') == 'write' then
    return 1
  end
end
remove_readers(name, others.dead)
if others.live == 0 then
  redis.call('DEL', name)
else
  redis.call('PEXPIRE', name, others.longest)
  -- Reads of the writer itself stay, and other readers may join them.
  redis.call('HSET', name, 'mode', 'read')
end
tell_gone(ARGV[3], ARGV[4], reads)
return 1
