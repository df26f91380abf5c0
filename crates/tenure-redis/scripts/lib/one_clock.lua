-- All calls of one script call are at the same time, which is read once. Only its microseconds go on: they are the
-- positions of those who queue, and no two of a name may have the same. Each call takes longer than one.
local read_clock, read_ms, read_micros = clock
clock = function()
  if read_ms then
    read_micros = string.format('%.0f', read_micros + 1)
  else
    read_ms, read_micros = read_clock()
  end
  return read_ms, read_micros
end
