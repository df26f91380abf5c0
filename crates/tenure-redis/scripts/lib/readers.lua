-- The TTL of a reader: it is alive as long as one of its own keys `<base>:<reader>:rwlock_timeout:<n>`, whatever the
-- TTL of the hash. Redisson has one such key for each re-entry, we only the first, with the record of the hold for a
-- value: Redisson looks only at the TTL.
--
-- These keys cannot be declared in KEYS, because they are known only after the hash was read. While a slot migrates,
-- one of them may be on the other node, and this node cannot tell whether the reader is alive. The result is nil then,
-- and must be checked before anything is written.
local function time_of(base, reader, holds)
  local left = 0
  for n = 1, math.min(holds, 1000) do
    local key = base .. ':' .. reader .. ':rwlock_timeout:' .. n
    local time = redis.pcall('PTTL', key)
    if type(time) == 'table' then
      if string.find(time.err, 'non local key', 1, true) then
        return nil
      end
      -- Any other error is raised as usual.
      time = redis.call('PTTL', key)
    end
    left = math.max(left, time)
  end
  return left
end

-- The error that the server itself returns if a declared key is on another node: the client retries.
local function elsewhere()
  return redis.error_reply('TRYAGAIN the keys of some readers are on another node while their slot moves')
end

-- Checks all readers except `but`, or until `enough(ms left, live readers)` is true for a live reader; writes nothing.
-- Returns how many are alive, their longest and shortest TTL, the dead ones, and whether all readers were checked.
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

-- Removes readers that have expired.
local function remove_readers(name, dead)
  for _, reader in ipairs(dead) do
    redis.call('HDEL', name, reader)
  end
end

-- Publishes that a writer or reader has released. On '1', the message for a writer, a JVM wakes all its sleeping
-- threads, and drops the message if there is none yet: a thread that has just found the lock taken would sleep for the
-- whole lease. '0', the message for a reader, is kept for such a thread.
local function tell_gone(publish, channel, reads)
  if not reads then
    redis.pcall(publish, channel, '1')
  end
  redis.pcall(publish, channel, '0')
end
