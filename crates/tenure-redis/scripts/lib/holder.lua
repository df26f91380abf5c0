-- The record of a holder, in the hash of the lock: the field behind that of its holds. Redisson reads only fields of
-- its own holds.
local RECORD = ':d'

local function fence_in(record)
  return string.match(record or '', '^(%d+) ')
end

-- The holder that a field of the hash belongs to: one of its two, or the only one of another library.
local function holder_in(field)
  return field and (string.gsub(field, RECORD .. '$', '')) or ''
end

-- The only holder of a lock.
local function holder_of(name)
  return holder_in(redis.call('HRANDFIELD', name))
end
