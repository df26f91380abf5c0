-- Each reader lives as long as one of its own keys `<base>:<reader>:rwlock_timeout:<n>`, whatever the TTL of the hash.
-- Redisson has one for each time that it is inside, ours only the first.
--
-- They cannot be named to the server: whose they are is known when the hash has been read. While a slot moves, one of them
-- may be on the other node, and then nobody can tell here whether the reader lives. The answer is nil for that, and has to
-- be known before anything is written.
local function time_of(base, reader, holds)
  local left = 0
  for n = 1, math.min(holds, 1000) do
    local key = base .. ':' .. reader .. ':rwlock_timeout:' .. n
    local time = redis.pcall('PTTL', key)
    if type(time) == 'table' then
      if string.find(time.err, 'non local key', 1, true) then
        return nil
      end
      -- Anything else fails as it always would.
      time = redis.call('PTTL', key)
    end
    left = math.max(left, time)
  end
  return left
end

-- The server's own answer where a key that was named to it is on another node: it is tried again.
local function elsewhere()
  return redis.error_reply('TRYAGAIN the keys of some readers are on another node while their slot moves')
end

-- Looks at all readers but one, or at some until `enough(its time, how many live)` of a living one; writes nothing. How many
-- live, their longest and shortest time, those whose time is over, and whether that is all of them.
local function look_at_readers(name, base, but, enough)
  local seen = {live = 0, longest = 0, shortest = math.huge, dead = {}, all = false}
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', name, cursor, 'COUNT', 100)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local reader, holds = page[2][i], tonumber(page[2][i + 1])
      if reader ~= but and reader ~= 'mode' and holds and string.sub(reader, -6) ~= ':write' then
        local left = time_of(base, reader, holds)
        if not left then
          return nil
        end
        if left > 0 then
          seen.live = seen.live + 1
          seen.longest = math.max(seen.longest, left)
          seen.shortest = math.min(seen.shortest, left)
          if enough and enough(left, seen.live) then
            return seen
          end
        else
          seen.dead[#seen.dead + 1] = reader
        end
      end
    end
  until cursor == '0'
  seen.all = true
  return seen
end

-- Removes those whose time is over.
local function remove_readers(name, about, dead)
  for _, reader in ipairs(dead) do
    redis.call('HDEL', name, reader)
    redis.call('HDEL', about, reader)
  end
end

-- A writer has gone, or a reader. For a writer a JVM wakes all of its threads that sleep, and forgets the message if none
-- does yet: one that has just found the lock taken would sleep for the lease. The message of a reader is kept for it.
local function tell_gone(publish, channel, reads)
  if not reads then
    redis.pcall(publish, channel, '1')
  end
  redis.pcall(publish, channel, '0')
end
