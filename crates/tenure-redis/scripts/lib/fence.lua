-- The next fence of a name: the server's clock in microseconds, or one more than the last where that is not larger.
-- With `keep` = 0 it is Redisson's own counter, which never goes away.
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

-- What people see of the one holder. That of the last one goes, which may have ended without a word.
local function describe(about, id, text)
  local last = redis.call('HGET', about, 'holder')
  if last and last ~= id then
    redis.call('HDEL', about, last)
  end
  redis.call('HSET', about, id, text, 'holder', id)
end

-- What people see of a hold or a waiter: `<fence> <since> <patience> <who>`.
local function fence_of(about, id)
  local text = redis.call('HGET', about, id)
  return text and string.match(text, '^(%d+) ') or ''
end
