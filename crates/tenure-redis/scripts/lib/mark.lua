-- The mark of a number of ours: its kind, `latch`, `semaphore` or `permits`; and when a latch was created.
local function kind_of(mark)
  local text = redis.call('GET', mark)
  return text and string.match(text, '^%S+')
end

local function born_of(mark)
  local text = redis.call('GET', mark)
  return text and string.match(text, '^latch (%d+)$') or '0'
end
