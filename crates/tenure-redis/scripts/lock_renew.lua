-- Checks and extends many locks that hold, all in one slot. Each has its own key only, and costs two commands where the
-- server can compare. Creates nothing, shortens nothing; with a lease of 0 it only checks.
-- Keys:      the name of each
-- Arguments: 0 (there are no keys that may be elsewhere), lease ms, then the id of each
-- Reply:     for each: 1 held; 0 not
local lease, reply = tonumber(ARGV[2]), {}
for at, name in ipairs(KEYS) do
  reply[at] = 0
  -- A key that another program has overwritten must not make the renewal of all others fail.
  if redis.pcall('HEXISTS', name, ARGV[at + 2]) == 1 then
    lengthen(name, lease)
    reply[at] = 1
  end
end
return reply
