-- Descriptive records of our waiters and of the holders of permits, `<fence> <since> <number> <who>`, all in one hash.

-- Removes records of holds and waiters that ended without a release; the key that would have shown this may have
-- expired with them. If there are such records, each waiter removes up to a few: more than it adds, and never a
-- full scan. `holders` returns the number of holds, `held` whether an id is one of them.
local function tidy(about, stamps, holders, held)
  -- Two fields are not records: `holder` and `hold`.
  local records = redis.call('HLEN', about) - 2
  if records <= 0 or records <= (holders and holders() or 0) + redis.call('ZCARD', stamps) then
    return
  end
  for _, id in ipairs(redis.call('HRANDFIELD', about, 5)) do
    local known = id == 'holder' or id == 'hold' or id == 'owed' or (held and held(id))
    if not known and not redis.call('ZSCORE', stamps, id) then
      redis.call('HDEL', about, id)
    end
  end
end
