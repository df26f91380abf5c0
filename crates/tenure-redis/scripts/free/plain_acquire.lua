-- Decides most attempts before the functions of the library exist: creating them would cost as much as the rest.
if ARGV[4] == '1' and ARGV[5] == '' then
  local held = redis.call('GET', KEYS[1])
  if not held then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
    return {1}
  end
  -- A hold that has its id for a token. One with another token is found through its record.
  if held ~= ARGV[1] and string.find(held, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') then
    return {0, redis.call('PTTL', KEYS[1]), held}
  end
end
