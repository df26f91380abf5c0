-- A lock as one key with a token: compare and delete.
-- KEYS: name. ARGV: token. Reply: 1 if released.
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
