-- Checks and extends many locks that are strings, and refreshes the stamps of their waiters, all in one slot. Creates
-- and shortens nothing; with a lease of 0 it only checks. Two commands for each that is held and not to be described.
-- Keys:      for each claim: name, about, waiters, stamps. While a slot migrates: for one claim, only the first of
--            these, which its hold cannot exist without; all of them are at the end of the arguments
-- Arguments: number of keys at the end of the arguments, then for each claim: token, id, lease ms, stamp ms, who ('' if
--            its record is not to be written), ms that the record lasts
-- Reply:     for each claim: 1 held; 2 waiting; 0 neither; 3 unknown, because a key is on another node
local apart, reply = tonumber(ARGV[1]), {}
local keys = apart == 0 and KEYS or {unpack(ARGV, #ARGV - apart + 1)}
for at = 2, #ARGV - apart, 6 do
  local first = (at - 2) / 6 * 4
  local name, about, waiters, stamps = unpack(keys, first + 1, first + 4)
  local token, id, lease, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local found = 0
  -- A key that another program has overwritten must not make the renewal of all others fail.
  local held = redis.pcall('GET', name)
  if meant(held, about, token, id) then
    if ARGV[at + 4] ~= '' and (apart == 0 or is_here(about)) then
      record(name, about, held, id, '', ARGV[at + 4], lease, ARGV[at + 5])
    end
    keep(name, id, lease)
    if token ~= id then
      extend_here(about, lease)
    end
    found = 1
  else
    local place = here(redis.pcall('ZSCORE', waiters, id))
    if place and apart ~= 0 and not is_here(stamps) then
      found = 3
    elseif place then
      stamp(waiters, stamps, about, {id}, ms, (clock()))
      found = 2
    elseif place == nil then
      found = 3
    end
  end
  reply[#reply + 1] = found
end
return reply
