-- Draws the next fence of a name as `draw` does, and reserves up to `reserve` numbers after it, all in the same command:
-- the last fence is stored as the clock plus `reserve`, so that it does not run away from the clock, however often this is
-- done. Returns the fence, and how many numbers after it are reserved.
local function draw_range(key, keep, micros, reserve)
  if keep == '0' or reserve == 0 then
    return draw(key, keep, micros), 0
  end
  -- Exact up to 2^53, and so for all times until the year 2255; `tonumber` of more would lose digits.
  local clock = tonumber(micros)
  local to = clock + reserve
  local last = redis.call('SET', key, string.format('%.0f', to), 'PX', keep, 'GET')
  if not last then
    return micros, reserve
  end
  local before = #last <= 16 and tonumber(last)
  if before and before < clock then
    return micros, reserve
  elseif before and before < to then
    return string.format('%.0f', before + 1), to - before - 1
  end
  redis.call('SET', key, last, 'PX', keep)
  redis.call('INCR', key)
  return redis.call('GET', key), 0
end
