-- Reads or changes the number of a latch or a counting semaphore.
-- Keys:      name, operations of this client, mark, ends (permits with their expiry)
-- Arguments: counter (latch | semaphore), operation (get | init | set | add | take | undo | drain | delete), its
--            operand (undo: the number of that operation; '' for get, drain and delete), number of this operation,
--            number below which all operations were answered, publish command, channel, retention of the mark in ms
-- Reply:     {1 if it was applied, else 0, number before, number after ('-': none), when the latch was created in
--            microseconds (0: not a latch of ours; missing in the reply to a repeated operation)}; {3, kind} it is in
--            use as this kind
local name, done, mark, ends = unpack(KEYS)
local counter, op, n = ARGV[1], ARGV[2], tonumber(ARGV[3])
local latch = counter == 'latch'

-- Both kinds are plain numbers: only the mark of a number made by us tells them apart.
local before = redis.call('GET', name)
if before then
  local is = kind_of(mark)
  -- A JVM may have made something else of a semaphore that has no permits in use.
  if is and is ~= counter and (is ~= 'permits' or redis.call('EXISTS', ends) == 1) then
    return {3, is}
  end
end
if op == 'get' then
  return {1, before or '-', before or '-', born_of(mark)}
end
local low, text = known(done, ARGV[4], tonumber(ARGV[5]))
if tonumber(ARGV[4]) < low then
  return {0, before or '-', before or '-'}
end
if text then
  return again(text)
end

local applied, took, after = 0, 0, before
local value = before and tonumber(before)
if op == 'init' then
  if not before and not (latch and n == 0) then
    redis.call('SET', name, ARGV[3])
    applied, after = 1, ARGV[3]
  end
elseif op == 'set' then
  redis.call('SET', name, ARGV[3], 'KEEPTTL')
  applied, after = 1, ARGV[3]
elseif op == 'add' then
  if before or not latch then
    redis.call('INCRBY', name, ARGV[3])
    applied, after = 1, redis.call('GET', name)
    if latch and tonumber(after) <= 0 then
      redis.call('DEL', name)
      after = nil
    end
  end
elseif op == 'take' then
  if before and value >= n then
    redis.call('DECRBY', name, ARGV[3])
    applied, took, after = 1, ARGV[3], redis.call('GET', name)
  end
elseif op == 'drain' then
  if before and value > 0 then
    redis.call('SET', name, 0, 'KEEPTTL')
    applied, after = 1, '0'
  end
elseif op == 'delete' then
  if before then
    redis.call('DEL', name)
    applied, after = 1, nil
  end
elseif op == 'undo' then
  local taken = redis.call('HGET', done, ARGV[3])
  if taken then
    local was, much, had, left = string.match(taken, '^(%d) (%S+) (%S+) (%S+)$')
    if much ~= '0' then
      redis.call('HSET', done, ARGV[3], was .. ' 0 ' .. had .. ' ' .. left)
      applied = 1
      if before then
        redis.call('INCRBY', name, much)
        after = redis.call('GET', name)
      end
    end
  elseif n >= low then
    -- The operation has not arrived yet: when it does, it finds itself recorded as failed.
    redis.call('HSET', done, ARGV[3], '0 0 - -')
  end
end
remember(done, ARGV[4], applied, took, before, after)

if applied == 1 then
  if after then
    local text = counter
    if latch then
      local _, micros = clock()
      text = 'latch ' .. ((before and born_of(mark)) or micros)
    end
    redis.call('SET', mark, text, 'PX', ARGV[8])
  else
    redis.call('DEL', mark)
  end
  if latch then
    if not after then
      redis.pcall(ARGV[6], ARGV[7], '0')
    elseif not before then
      redis.pcall(ARGV[6], ARGV[7], '1')
    end
  elseif after and (not before or tonumber(after) > value) then
    redis.pcall(ARGV[6], ARGV[7], tonumber(after) < 0 and '0' or after)
  end
end
return {applied, before or '-', after or '-', born_of(mark)}
