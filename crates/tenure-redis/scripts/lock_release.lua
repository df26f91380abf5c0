-- The second part of a release, behind `free/lock_release`: what is released is no hold, or not for the last time.
if ARGV[2] ~= '0' then
  if redis.call('HEXISTS', name, id) == 0 then
    return 0
  end
  redis.call('HSET', name, id, ARGV[2])
  extend(name, tonumber(ARGV[3]))
  return 1
end
return waiters and leave(waiters, waiters, stamps, about, id) or 0
