-- While a slot moves from one node of a cluster to another, the keys of a name may lie on both. What a hold can do without
-- is used where it is on this node, and left alone where it is not.

-- A reply, or nil for an error.
local function here(reply)
  if type(reply) == 'table' and reply.err then
    return nil
  end
  return reply
end

-- As extend, for a key that may be on another node.
local function extend_here(key, ms)
  local left = here(redis.pcall('PTTL', key))
  if left and ms > 0 and left < ms then
    redis.pcall('PEXPIRE', key, ms)
  end
end

-- Whether a key is on this node. What would be added to one that is not would make another, and the true one could not
-- follow.
local function is_here(key)
  return redis.pcall('EXISTS', key) == 1
end
