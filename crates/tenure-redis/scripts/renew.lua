-- Checks and extends many holds that are not those of locks alone, and refreshes the stamps of many waiters, all in one slot. Creates nothing, writes no
-- counts, shortens nothing; with a lease of 0 it only checks. Similar claims on one name form one group, so that a
-- hundred waiters cost as many commands as one.
-- Keys:      for each group, by its kind, with those first that a hold cannot exist without:
--            q (lock or election that may be waiting) name, about, waiters, stamps;
--            f (fair lock) name, about, scores, stamps; w (write) name, about, waiters, stamps, writers, its record;
--            r (read) name, timeout of each claim, about, waiters, stamps;
--            p (permits) our ends, ends, about, waiters, stamps, name.
--            While a slot migrates: for one claim, only the first of these; all of them are at the end of the arguments
-- Arguments: number of keys at the end of the arguments, slack ms of permits, then for each group: kind, lease ms,
--            stamp ms, number of permits, number of claims, their ids
-- Reply:     for each claim: 1 held; 2 waiting; 0 neither; 3 unknown, because a key is on another node
local apart, slack = tonumber(ARGV[1]), tonumber(ARGV[2])
local keys = apart == 0 and KEYS or {unpack(ARGV, #ARGV - apart + 1)}
local reply = {}

-- Holds of locks need no time.
local known
local function now()
  known = known or clock()
  return known
end

-- Returns which of these fields exist. A key that another program has overwritten is not ours any more: it must not
-- make the renewal of all others fail.
local function fields(name, ids, ending)
  local wanted, there = {}, {}
  for i, id in ipairs(ids) do
    wanted[i] = id .. ending
  end
  for i, count in ipairs(here(redis.pcall('HMGET', name, unpack(wanted))) or {}) do
    there[ids[i]] = count and true
  end
  return there
end

-- Returns the ids that hold nothing, and so may be waiting.
local function others(found, ids)
  local rest = {}
  for _, id in ipairs(ids) do
    if not found[id] then
      rest[#rest + 1] = id
    end
  end
  return rest
end

-- Refreshes the stamp of each that is queued. Returns whether any is.
local function stamp_others(found, ids, waiters, stamps, about, ms)
  local rest, places = others(found, ids), {}
  if #rest == 0 then
    return false
  end
  local scores = here(redis.pcall('ZMSCORE', waiters, unpack(rest)))
  local can_stamp = apart == 0 or is_here(stamps)
  for i, id in ipairs(rest) do
    found[id] = (not scores and 3) or (scores[i] and 2) or 0
    if found[id] == 2 and can_stamp then
      places[#places + 1] = id
    elseif found[id] == 2 then
      found[id] = 3
    end
  end
  if #places > 0 then
    stamp(waiters, stamps, about, places, ms, now())
  end
  return #places > 0
end

local function stamp_queue(found, ids, scores, stamps, about, ms)
  local rest = others(found, ids)
  if #rest > 0 then
    local places = keep_places(scores, stamps, about, rest, ms, now(), apart ~= 0)
    for _, id in ipairs(rest) do
      found[id] = (not places and 3) or (places[id] and 2) or 0
    end
  end
end

local function renew_writer(found, ids, name, record, lease)
  local held = fields(name, ids, ':write')
  for _, id in ipairs(ids) do
    if held[id] then
      lengthen(name, lease)
      if redis.pcall('PEXPIRE', record, lease, 'GT') ~= 1 then
        extend_here(record, lease)
      end
      found[id] = 1
    end
  end
end

-- A hold without a key beside it. Two commands, where the server can compare.
local function renew_alone(found, ids, name, lease)
  local held = fields(name, ids, '')
  for _, id in ipairs(ids) do
    if held[id] then
      lengthen(name, lease)
      found[id] = 1
    end
  end
end

local function renew_readers(found, ids, name, timeouts, lease)
  local held, longest = fields(name, ids, ''), 0
  for i, id in ipairs(ids) do
    if held[id] then
      if lengthen(timeouts[i], lease) then
        longest = math.max(longest, lease)
        found[id] = 1
      else
        local left = redis.call('PTTL', timeouts[i])
        longest = math.max(longest, left)
        found[id] = left > 0 and 1 or nil
      end
    end
  end
  -- A JVM reader shortens the TTL of the hash to its own lease.
  lengthen(name, longest)
end

local function renew_permits(found, ids, n, ours, ends, about, name, lease)
  for _, id in ipairs(ids) do
    local over = redis.call('ZSCORE', ours, id)
    if over and tonumber(over) > now() then
      -- All permits or none: a JVM whose clock is far ahead may have reclaimed some, or the semaphore's TTL may end
      -- before the lease.
      local all = many(about, id, n)
      local ttl = here(redis.pcall('PTTL', name)) or -1
      found[id] = 0
      if alive(ends, id, all) == all and (ttl < 0 or ttl >= lease) then
        if lease > 0 then
          put(ends, ours, about, id, all, lease, slack, now())
        end
        found[id] = 1
      end
    end
  end
end

local at, key = 3, 0
local function take(n)
  local some = {unpack(keys, key + 1, key + n)}
  key = key + n
  return some
end

while at <= #ARGV - apart do
  local kind, lease, ms = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local permits, n = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local ids, found = {unpack(ARGV, at + 5, at + 4 + n)}, {}
  if kind == 'q' then
    local name, about, waiters, stamps = unpack(take(4))
    renew_alone(found, ids, name, lease)
    stamp_others(found, ids, waiters, stamps, about, ms)
  elseif kind == 'f' then
    local name, about, scores, stamps = unpack(take(4))
    renew_alone(found, ids, name, lease)
    stamp_queue(found, ids, scores, stamps, about, ms)
  elseif kind == 'w' then
    local name, about, waiters, stamps, writers, record = unpack(take(6))
    renew_writer(found, ids, name, record, lease)
    if stamp_others(found, ids, waiters, stamps, about, ms) then
      extend_here(writers, ms)
    end
  elseif kind == 'r' then
    local name, timeouts = unpack(take(1)), take(n)
    local about, waiters, stamps = unpack(take(3))
    renew_readers(found, ids, name, timeouts, lease)
    stamp_others(found, ids, waiters, stamps, about, ms)
  else
    local ours, ends, about, waiters, stamps, name = unpack(take(6))
    renew_permits(found, ids, permits, ours, ends, about, name, lease)
    stamp_others(found, ids, waiters, stamps, about, ms)
  end
  for _, id in ipairs(ids) do
    reply[#reply + 1] = found[id] or 0
  end
  at = at + 5 + n
end
return reply
