-- What a number of ours counts: `latch`, `semaphore` or `permits`; and when a latch was made.
local function kind_of(mark)
  local text = redis.call('GET', mark)
  return text and string.match(text, '^%S+')
end

local function born_of(mark)
  local text = redis.call('GET', mark)
  return text and string.match(text, '^latch (%d+)$') or '0'
end
