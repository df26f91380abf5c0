-- Makes operations on numbers idempotent. A client sends the number below which all its operations were answered; only
-- results of operations that may be retried are kept, as `<applied> <took> <before> <after>`.
local function known(done, n, settled)
  local old = tonumber(redis.call('HGET', done, 's') or 0)
  local low = math.max(settled, old)
  redis.call('HSET', done, 's', string.format('%.0f', low))
  redis.call('PEXPIRE', done, 600000)
  -- Only if there is something to forget, so that one unanswered operation does not slow down all others.
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
