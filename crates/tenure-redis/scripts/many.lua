-- Runs the script above for several calls, which were waiting to be sent at the same moment. One that fails fails alone.
-- Keys:      for each call: those of the script
-- Arguments: number of keys of a call; for each argument of the script `=` if all calls share it, else `*`; the shared
--            arguments; then for each call its own
-- Reply:     for each call: that of the script, or its error
local each, shape = tonumber(ARGV[1]), ARGV[2]
local keys, args, own, at = {}, {}, {}, 2
for i = 1, #shape do
  if string.byte(shape, i) == 61 then
    at = at + 1
    args[i] = ARGV[at]
  else
    own[#own + 1] = i
  end
end

local replies = {}
for first = 0, #KEYS - 1, each do
  for i = 1, each do
    keys[i] = KEYS[first + i]
  end
  for _, i in ipairs(own) do
    at = at + 1
    args[i] = ARGV[at]
  end
  local done, reply = pcall(one, keys, args)
  if not done then
    -- Some versions raise a table, some its text; before 7.0 the text begins with the place and not with the code.
    local text = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {err = string.match(text, '^%u+ ') and text or 'ERR ' .. text}
  end
  replies[#replies + 1] = reply
end
return replies
