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

-- The fence in a record, or nil.
local function fence_of(about, id)
  return string.match(redis.call('HGET', about, id) or '', '^(%d+) ')
end

-- The fence of an existing hold. If its record was evicted, a new fence is drawn: nobody else held the name in between,
-- so a larger fence is as good. `rest` is the rest of the record.
local function fence_again(fences, keep, about, id, rest)
  local fence = fence_of(about, id)
  if not fence then
    local _, micros = clock()
    fence = draw(fences, keep, micros)
    redis.call('HSET', about, id, fence .. ' ' .. micros .. ' ' .. rest)
  end
  return fence
end
