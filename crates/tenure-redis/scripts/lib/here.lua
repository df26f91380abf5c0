-- While a slot migrates, the keys of a name may be split over two nodes. Keys that a hold does not depend on are used
-- if they are on this node, and ignored otherwise.

-- Returns the reply, or nil for an error.
local function here(reply)
  if type(reply) == 'table' and reply.err then
    return nil
  end
  return reply
end

-- Like extend, for a key that may be on another node.
local function extend_here(key, ms)
  local left = here(redis.pcall('PTTL', key))
  if left and ms > 0 and left < ms then
    redis.pcall('PEXPIRE', key, ms)
  end
end

-- Whether a key is on this node. Writing to a key that is not would create a second one, and the original could not be
-- migrated.
local function is_here(key)
  return redis.pcall('EXISTS', key) == 1
end
