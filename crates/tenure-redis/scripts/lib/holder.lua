-- The record of a holder, in the hash of the lock: the field behind that of its holds. Redisson reads only fields of
-- its own holds.
local RECORD = ':d'

local function fence_in(record)
  return string.match(record or '', '^(%d+) ')
end

-- The only holder of a lock: one of its two fields, or the only one of another library.
local function holder_of(name)
  local field = redis.call('HRANDFIELD', name)
  return field and (string.gsub(field, RECORD .. '$', '')) or ''
end
