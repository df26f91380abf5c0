-- Proves and extends many holds, and stamps many waiters, of one slot. Creates nothing, writes no counts, shortens
-- nothing; with a lease of 0 it only proves.
-- Keys:      of each claim, by its kind: l (lock, election) name, about; q (the same, perhaps
--            waiting) name, about, waiters, stamps; f (fair lock) the same and queue, scores, stamps;
--            r (read) name, about, timeout, waiters, stamps; w (write) name, about, waiters, stamps, writers;
--            p (permits) about, ends, our ends, waiters, stamps, name
-- Arguments: slack ms of permits, then of each claim: kind, id, lease ms, stamp ms, how many permits
-- Reply:     of each claim: 1 held; 2 waiting; 0 neither
local slack, now = tonumber(ARGV[1]), clock()
local key, reply = 0, {}

-- A key that somebody else has overwritten is not ours any more: it must not end the renewal of all others.
local function has(name, field)
  return redis.pcall('HEXISTS', name, field) == 1
end

local function waits(waiters, stamps, about, id, ms)
  if not redis.call('ZSCORE', waiters, id) then
    return 0
  end
  stamp(waiters, stamps, about, id, ms, now)
  return 2
end

for at = 2, #ARGV, 5 do
  local kind, id, lease, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local found = 0
  if kind == 'l' or kind == 'q' or kind == 'f' then
    local name, about = KEYS[key + 1], KEYS[key + 2]
    if has(name, id) then
      extend(name, lease)
      extend(about, lease)
      found = 1
    elseif kind == 'f' and redis.call('ZSCORE', KEYS[key + 4], id) then
      keep_place(KEYS[key + 4], KEYS[key + 5], about, id, ms, now)
      found = 2
    elseif kind == 'q' then
      found = waits(KEYS[key + 3], KEYS[key + 4], about, id, ms)
    end
    key = key + ((kind == 'l' and 2) or (kind == 'q' and 4) or 5)
  elseif kind == 'r' then
    local name, about, timeout = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
    if has(name, id) and redis.call('EXISTS', timeout) == 1 then
      extend(timeout, lease)
      -- A JVM that reads too shortens the hash to its own term.
      extend(name, redis.call('PTTL', timeout))
      extend(about, lease)
      found = 1
    else
      found = waits(KEYS[key + 4], KEYS[key + 5], about, id, ms)
    end
    key = key + 5
  elseif kind == 'w' then
    local name, about = KEYS[key + 1], KEYS[key + 2]
    if has(name, id .. ':write') then
      extend(name, lease)
      extend(about, lease)
      found = 1
    else
      found = waits(KEYS[key + 3], KEYS[key + 4], about, id, ms)
      extend(KEYS[key + 5], ms)
    end
    key = key + 5
  else
    local about, ends, ours = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
    local over = redis.call('ZSCORE', ours, id)
    if over and tonumber(over) > now then
      -- All of them, or none: a JVM whose clock is far ahead may have taken some back, or the whole may end sooner.
      local n = many(about, id, tonumber(ARGV[at + 4]))
      local ttl = redis.call('PTTL', KEYS[key + 6])
      if alive(ends, id, n) == n and (ttl < 0 or ttl >= lease) then
        put(ends, ours, about, id, n, lease, slack, now)
        found = 1
      end
    else
      found = waits(KEYS[key + 4], KEYS[key + 5], about, id, ms)
    end
    key = key + 6
  end
  reply[#reply + 1] = found
end
return reply
