-- Checks which commands this user may run on which keys or channels. Servers before Redis 7 cannot tell.
-- Keys:      none
-- Arguments: number of commands, the commands, the keys or channels
-- Reply:     for each command a text with one digit for each key or channel: 1 allowed, 0 not; nil if the server
--            cannot tell
local n = tonumber(ARGV[1])
if not redis.acl_check_cmd then
  return false
end
local rows = {}
for c = 2, n + 1 do
  local command, row = ARGV[c], ''
  local runs_scripts = string.sub(command, 1, 4) == 'EVAL'
  for k = n + 2, #ARGV do
    local known, may
    if runs_scripts then
      known, may = pcall(redis.acl_check_cmd, command, '', '1', ARGV[k])
    else
      -- The key is passed three times: some commands take several keys, others a value, whose content does not matter.
      known, may = pcall(redis.acl_check_cmd, command, ARGV[k], ARGV[k], ARGV[k])
    end
    -- A command that the server does not know is not forbidden.
    row = row .. ((may or not known) and '1' or '0')
  end
  rows[#rows + 1] = row
end
return rows
