-- The server's clock: milliseconds as a number, microseconds as text, because Lua does not print 16 digits in full.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), t[1] .. string.format('%06d', t[2])
end
