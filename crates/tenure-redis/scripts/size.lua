-- Reads or changes the size of a semaphore with recorded permits.
-- Keys:      name (number of free permits), ends, our ends, operations of this client, mark, about
-- Arguments: operation (get | init | set | delete), its operand ('' for get and delete), number of this operation,
--            number below which all operations were answered, publish command, channel, slack ms
-- Reply:     {1 if it was applied, else 0, size before, size after ('-': none)}; {3, kind} it is in use as this kind
local name, ends, ours, done, mark, about = unpack(KEYS)
local op = ARGV[1]
local is = redis.call('EXISTS', name) == 1 and kind_of(mark)
if is and is ~= 'permits' then
  return {3, is}
end
local now = clock()
if reap(name, ends, ours, about, tonumber(ARGV[7]), now) > 0 then
  tell(ARGV[5], ARGV[6], name)
end
local free = redis.call('GET', name)
local used = redis.call('ZCARD', ends)
local before = free and tostring(free + used)
if op == 'get' then
  return {1, before or '-', before or '-'}
end
local low, text = known(done, ARGV[3], tonumber(ARGV[4]))
if tonumber(ARGV[3]) < low then
  return {0, before or '-', before or '-'}
end
if text then
  return again(text)
end

local applied, after = 0, before
if op == 'set' or (op == 'init' and not before) then
  redis.call('SET', name, ARGV[2] - used, 'KEEPTTL')
  redis.call('SET', mark, 'permits')
  applied, after = 1, ARGV[2]
  tell(ARGV[5], ARGV[6], name)
elseif op == 'delete' and before then
  redis.call('DEL', name, mark)
  applied, after = 1, nil
end
remember(done, ARGV[3], applied, 0, before, after)
return {applied, before or '-', after or '-'}
