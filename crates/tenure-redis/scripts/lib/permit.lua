-- The id of the i-th permit of a hold, 16 raw bytes as in Redisson. It is derived from the hold, so a retry finds the
-- same permits.
local function permit(id, i)
  local hex = redis.sha1hex(id .. '/' .. i)
  local function word(at) return tonumber(string.sub(hex, at, at + 7), 16) end
  return struct.pack('>I4I4I4I4', word(1), word(9), word(17), word(25))
end

-- The ids of all n of them.
local function permits_of(id, n)
  local all = {}
  for i = 1, n do
    all[i] = permit(id, i)
  end
  return all
end
