-- Operations on numbers are done once each. A client says below which number all of its operations were answered; only
-- what may still come again is remembered, as `<applied> <took> <before> <after>`.
local function known(done, n, settled)
  local old = tonumber(redis.call('HGET', done, 's') or 0)
  local low = math.max(settled, old)
  redis.call('HSET', done, 's', string.format('%.0f', low))
  redis.call('PEXPIRE', done, 600000)
  -- Only when there is something to forget: one that hangs must not make all others slow.
  if low > old then
    for _, each in ipairs(redis.call('HKEYS', done)) do
      if each ~= 's' and tonumber(each) < low then
        redis.call('HDEL', done, each)
      end
    end
  end
  return low, redis.call('HGET', done, n)
end

local function remember(done, n, applied, took, before, after)
  redis.call('HSET', done, n, applied .. ' ' .. took .. ' ' .. (before or '-') .. ' ' .. (after or '-'))
end

local function again(text)
  local applied, before, after = string.match(text, '^(%d) %S+ (%S+) (%S+)$')
  return {tonumber(applied), before, after}
end
