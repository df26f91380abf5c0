-- Leaves either half of a read/write lock, or the wait for it; or writes the count of a hold that stays.
-- Keys:      name, about, waiters, writers, stamps, timeout of a reader ('' of a writer: the name again)
-- Arguments: id, field, holds left, lease ms, publish command, channel, what the keys of readers begin with
-- Reply:     1 it was there; 0 there was nothing of this id
local name, about, waiters, writers, stamps, timeout = unpack(KEYS)
local id, field = ARGV[1], ARGV[2]
local reads = id == field

if redis.call('HEXISTS', name, field) == 0 or (reads and redis.call('EXISTS', timeout) == 0) then
  if ARGV[3] ~= '0' then
    return 0
  end
  local first = redis.call('ZRANGE', waiters, 0, 0)[1] == id or redis.call('ZSCORE', writers, id)
  -- The record of a hold that ended with its lease, too: with the hash gone, nobody else would find it.
  redis.call('HDEL', about, id)
  local was = leave(waiters, writers, stamps, about, id)
  if was == 1 and first then
    -- Those behind it may have stood back for nobody else.
    redis.pcall(ARGV[5], ARGV[6], '1')
  end
  return was
end
if ARGV[3] ~= '0' then
  local lease = tonumber(ARGV[4])
  redis.call('HSET', name, field, ARGV[3])
  if reads then
    extend(timeout, lease)
  end
  extend(name, lease)
  extend(about, lease)
  return 1
end

-- The hash lasts as long as the longest reader. Only if that was this one, all others have to be asked.
local longer = reads and redis.call('PTTL', timeout) < redis.call('PTTL', name) - 1000
redis.call('HDEL', name, field)
redis.call('HDEL', about, id)
if reads then
  redis.call('DEL', timeout)
  if redis.call('HGET', name, 'mode') == 'write' then
    return 1
  end
end
local live, longest = 0, 0
if redis.call('HLEN', name) > 1 then
  live, longest = readers(name, ARGV[7], about, longer)
end
if live == 0 then
  redis.call('DEL', name)
  redis.pcall(ARGV[5], ARGV[6], reads and '0' or '1')
else
  if not longer then
    redis.call('PEXPIRE', name, longest)
  end
  if not reads then
    -- The writer's own reads stay: other readers may join them.
    redis.call('HSET', name, 'mode', 'read')
    redis.pcall(ARGV[5], ARGV[6], '1')
  end
end
return 1
