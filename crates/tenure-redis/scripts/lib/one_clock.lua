-- All calls of one script call are at the same time, which is read once.
local read_clock, read_ms, read_micros = clock
clock = function()
  if not read_ms then
    read_ms, read_micros = read_clock()
  end
  return read_ms, read_micros
end
