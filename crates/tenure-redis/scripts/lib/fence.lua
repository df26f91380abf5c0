-- The fence in a record in `tenure_about`, or nil.
local function fence_of(about, id)
  return string.match(redis.call('HGET', about, id) or '', '^(%d+) ')
end

-- The fence of an existing hold. If its record was evicted, a new fence is drawn: nobody else held the name in between,
-- so a larger fence is as good. `write(text)` writes the new record, of which `rest` is the end.
local function fence_again(fence, fences, keep, rest, write)
  if not fence then
    local _, micros = clock()
    fence = draw(fences, keep, micros)
    write(fence .. ' ' .. micros .. ' ' .. rest)
  end
  return fence
end
