-- Draws the next fence of a name: the server's clock in microseconds, or the last fence + 1 if that is larger. With
-- `keep` = 0 it is Redisson's own counter, which never expires.
local function draw(key, keep, micros)
  if keep == '0' then
    redis.call('INCR', key)
    return redis.call('GET', key)
  end
  local last = redis.call('SET', key, micros, 'PX', keep, 'GET')
  if last and (#last > #micros or (#last == #micros and last >= micros)) then
    redis.call('SET', key, last, 'PX', keep)
    redis.call('INCR', key)
    return redis.call('GET', key)
  end
  return micros
end
