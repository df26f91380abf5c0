-- Proves and extends many locks that are strings, and stamps those who wait for them, of one slot. Creates and
-- shortens nothing; with a lease of 0 it only proves.
-- Keys:      of each claim: name, about, waiters, stamps
-- Arguments: of each claim: token, id, lease ms, stamp ms
-- Reply:     of each claim: 1 held; 2 waiting; 0 neither
local now, reply = clock(), {}
for at = 1, #ARGV, 4 do
  local name, about, waiters, stamps = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3]
  local token, id, lease, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local found = 0
  -- A key that somebody else has overwritten must not end the renewal of all others.
  local held = redis.pcall('GET', name)
  if meant(held, about, token, id) then
    keep(name, about, id, lease)
    found = 1
  elseif redis.call('ZSCORE', waiters, id) then
    stamp(waiters, stamps, about, id, ms, now)
    found = 2
  end
  reply[#reply + 1] = found
end
return reply
