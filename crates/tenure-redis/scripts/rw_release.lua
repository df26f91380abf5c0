-- Releases either half of a read/write lock, or cancels a wait for it; or writes the hold count of a hold that stays.
-- free/rw_release.lua comes before it.
-- Keys:      name, about, waiters, writers, stamps, timeout of this reader (of a writer: its record)
-- Arguments: id, field, holds left, lease ms, publish command, channel, prefix of readers' timeout keys
-- Reply:     1 the hold or waiter existed; 0 it did not; error TRYAGAIN: the timeout key of a reader is on another
--            node
local name, about, waiters, writers, stamps, timeout = unpack(KEYS)
local id, field = ARGV[1], ARGV[2]
local reads = id == field

if redis.call('HEXISTS', name, field) == 0 or (reads and redis.call('EXISTS', timeout) == 0) then
  if ARGV[3] ~= '0' then
    return 0
  end
  local first = redis.call('ZRANGE', waiters, 0, 0)[1] == id or redis.call('ZSCORE', writers, id)
  -- Also removes the record of a hold whose lease has expired: with the hash gone, nothing else would find it.
  redis.call('HDEL', about, id)
  local was = leave(waiters, writers, stamps, about, id)
  if was == 1 and first then
    -- It may have been the only one that blocked those behind it in the queue.
    redis.pcall(ARGV[5], ARGV[6], '1')
  end
  return was
end
if ARGV[3] ~= '0' then
  local lease = tonumber(ARGV[4])
  redis.call('HSET', name, field, ARGV[3])
  extend(timeout, lease)
  extend(name, lease)
  return 1
end

local below_writer = reads and redis.call('HGET', name, 'mode') == 'write'
local others
if not below_writer and redis.call('HLEN', name) > 2 then
  -- The hash lives as long as the longest lease of a reader. Only if this reader had the longest lease, the next
  -- longest is looked for. The search stops after 100 live readers: a hash that lives too long does not keep out our
  -- writers.
  local ttl = redis.call('PTTL', name)
  local longest = not reads or redis.call('PTTL', timeout) >= ttl - 1000
  others = look_at_readers(name, ARGV[7], field, function(left, live)
    return not longest or left >= ttl - 1000 or live >= 100
  end)
  if not others then
    return elsewhere()
  end
end
redis.call('HDEL', name, field)
redis.call('DEL', timeout)
if below_writer then
  return 1
end
if others then
  remove_readers(name, others.dead)
end
if not others or others.live == 0 then
  redis.call('DEL', name)
  tell_gone(ARGV[5], ARGV[6], reads)
else
  if others.all then
    redis.call('PEXPIRE', name, others.longest)
  else
    extend(name, others.longest)
  end
  if not reads then
    -- Reads of the writer itself stay, and other readers may join them.
    redis.call('HSET', name, 'mode', 'read')
    tell_gone(ARGV[5], ARGV[6], false)
  end
end
return 1
