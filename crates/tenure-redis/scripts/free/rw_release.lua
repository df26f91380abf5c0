-- Releases most holds before the functions of the library exist: of the only holder, or of a reader where another one
-- is seen to be alive.
if ARGV[3] == '0' then
  local reads = ARGV[1] == ARGV[2]
  local some, there, other = redis.call('HRANDFIELD', KEYS[1], 3), false, nil
  for _, field in ipairs(some) do
    if field == ARGV[2] then
      there = true
    elseif field ~= 'mode' then
      other = field
    end
  end
  if there and not other then
    local found = redis.call('DEL', KEYS[1], KEYS[6])
    -- See tell_gone.
    if not reads then
      redis.pcall(ARGV[5], ARGV[6], '1')
    end
    redis.pcall(ARGV[5], ARGV[6], '0')
    return (found == 2 or not reads) and 1 or 0
  end
  if reads and other and string.sub(other, -6) ~= ':write' then
    -- The hash lives as long as the longest lease of a reader, which may be this one's.
    local left, whole = redis.pcall('PTTL', ARGV[7] .. ':' .. other .. ':rwlock_timeout:1'), redis.call('PTTL', KEYS[1])
    if type(left) == 'number' and left > 0
      and (left >= whole - 1000 or redis.call('PTTL', KEYS[6]) < whole - 1000)
      and redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
      return redis.call('DEL', KEYS[6])
    end
  end
end
