-- What people see: a record `<fence> <since> <number> <who>` of each holder and waiter of ours, all in one hash.

-- Whoever ends without a word leaves its record behind, and what would remind of it may have expired with the key that it
-- stood in. If there are such records, a few of them go with each grant: more than a grant adds, and never a long walk.
-- `holders` counts the holds besides, `held` says whether an id is one of them.
local function tidy(about, stamps, holders, held)
  -- Two fields are no records: `holder` and `hold`.
  local records = redis.call('HLEN', about) - 2
  if records <= 0 or records <= (holders and holders() or 0) + redis.call('ZCARD', stamps) then
    return
  end
  for _, id in ipairs(redis.call('HRANDFIELD', about, 5)) do
    local known = id == 'holder' or id == 'hold' or (held and held(id))
    if not known and not redis.call('ZSCORE', stamps, id) then
      redis.call('HDEL', about, id)
    end
  end
end

-- Of the one holder. The record of the last one goes, which may have ended without a word.
local function describe(about, stamps, id, text)
  local last = redis.call('HGET', about, 'holder')
  if last and last ~= id then
    redis.call('HDEL', about, last)
  end
  tidy(about, stamps)
  redis.call('HSET', about, id, text, 'holder', id)
end

-- The writer inside, if it is one of ours.
local function writer_of(name, about)
  local holder = redis.call('HGET', about, 'holder')
  return holder and redis.call('HEXISTS', name, holder .. ':write') == 1 and holder or ''
end
