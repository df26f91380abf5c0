-- Checks and extends many locks that are strings, and refreshes the stamps of their waiters, all in one slot. Creates
-- and shortens nothing; with a lease of 0 it only checks.
-- Keys:      for each claim: name, about, waiters, stamps. While a slot migrates: for one claim, only the first of
--            these, which its hold cannot exist without; all of them are at the end of the arguments
-- Arguments: number of keys at the end of the arguments, then for each claim: token, id, lease ms, stamp ms
-- Reply:     for each claim: 1 held; 2 waiting; 0 neither; 3 unknown, because a key is on another node
local apart, now, reply = tonumber(ARGV[1]), clock(), {}
local keys = apart == 0 and KEYS or {unpack(ARGV, #ARGV - apart + 1)}
for at = 2, #ARGV - apart, 4 do
  local name, about, waiters, stamps = unpack(keys, at - 1, at + 2)
  local token, id, lease, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local found = 0
  -- A key that another program has overwritten must not make the renewal of all others fail.
  local held = redis.pcall('GET', name)
  if meant(held, about, token, id) then
    keep(name, about, id, lease)
    found = 1
  else
    local place = here(redis.pcall('ZSCORE', waiters, id))
    if place and apart ~= 0 and not is_here(stamps) then
      found = 3
    elseif place then
      stamp(waiters, stamps, about, {id}, ms, now)
      found = 2
    elseif place == nil then
      found = 3
    end
  end
  reply[#reply + 1] = found
end
return reply
