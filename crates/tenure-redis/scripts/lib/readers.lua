-- Each reader lives as long as one of its own keys `<base>:<reader>:rwlock_timeout:<n>`, whatever the TTL of the hash.
-- Redisson has one for each time that it is inside, ours only the first.
local function time_of(base, reader, holds)
  local left = 0
  for n = 1, math.min(holds, 1000) do
    left = math.max(left, redis.call('PTTL', base .. ':' .. reader .. ':rwlock_timeout:' .. n))
  end
  return left
end

-- Removes readers whose time is over; all of them, or those before the first that lives. How many live that were looked
-- at, and the longest and the shortest time that one of them has.
local function readers(name, base, about, first)
  local all = redis.call('HGETALL', name)
  local live, longest, shortest = 0, 0, math.huge
  for i = 1, #all, 2 do
    local reader, holds = all[i], tonumber(all[i + 1])
    if reader ~= 'mode' and holds and string.sub(reader, -6) ~= ':write' then
      local left = time_of(base, reader, holds)
      if left > 0 then
        live = live + 1
        longest = math.max(longest, left)
        shortest = math.min(shortest, left)
        if first then
          return live, longest, shortest
        end
      else
        redis.call('HDEL', name, reader)
        redis.call('HDEL', about, reader)
      end
    end
  end
  return live, longest, shortest
end
