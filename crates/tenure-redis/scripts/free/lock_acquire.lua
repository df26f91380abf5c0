-- The first part of an attempt on a lock or an election: what is free is granted. It comes before all that only a busy
-- lock needs, since to define a function costs as much as a command.
local name, fences, about, waiters, stamps = unpack(KEYS)
local id, lease, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local function grant()
  local _, micros = clock()
  local fence, spare = draw_range(fences, ARGV[4], micros, tonumber(ARGV[9]))
  redis.call('HSET', name, id, 1, id .. RECORD, fence .. ' ' .. micros .. ' 0 ' .. ARGV[5])
  redis.call('PEXPIRE', name, lease)
  if ARGV[8] ~= '' then
    redis.pcall(ARGV[7], ARGV[8], '1')
  end
  return {1, fence, spare}
end

local left = redis.call('PTTL', name)
if left == -2 and holds == '1' and ARGV[6] == '' then
  return grant()
end
