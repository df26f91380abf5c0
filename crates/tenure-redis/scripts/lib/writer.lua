-- The record of the writer, in a key of its own: `<id> <fence> <since> 0 <who>`. It can be of a writer whose hold was
-- taken away by another program.

-- The fence of the writer with this id, or nil.
local function fence_of_writer(writer, id)
  local of, fence = string.match(redis.call('GET', writer) or '', '^(%S+) (%d+) ')
  return of == id and fence or nil
end

-- The current writer's id if it is one of ours, else ''. That of an earlier version is in the hash of all records.
local function writer_of(name, writer, about)
  local text = redis.call('GET', writer)
  local id = text and string.match(text, '^%S+') or redis.call('HGET', about, 'holder')
  return id and redis.call('HEXISTS', name, id .. ':write') == 1 and id or ''
end
