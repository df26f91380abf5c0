-- Holds and places are kept without more memory, but a server that has none left refuses ZADD and the like all the same
-- until its script has written something. This is written first, and changes nothing.
local function without_memory(set)
  redis.call('ZREM', set, '')
end
