-- Reads the state of a name, within limits: a key of another program may have any size and content, and this script
-- blocks the server.
-- Keys:      name, about, waiters, stamps, queue, ends (Redisson's permits), our ends, fence, token, mark,
--            record of the writer
-- Arguments: prefix of readers' timeout keys
-- Reply:     {type, ms left, content, records, waiters, queue, ends, our ends, fence, token, mark, ms left of each
--            reader, now in ms, stamps, permits of each of our holds, number of permits in use}
local name, about, waiters, stamps, queue, ends, ours, fence, token, mark, writer = unpack(KEYS)
-- Limit for each of holders, waiters, times and permits.
local MOST = 1000
local now = clock()
local kind = redis.call('TYPE', name)['ok']
local content, times, permits, records = '', {}, {}, {}

-- Adds the records of the ids in a list; `step` is the distance between two ids.
local function look_up(list, step)
  local ids = {}
  for i = 1, #list, step do
    ids[#ids + 1] = (string.gsub(list[i], ':write$', ''))
  end
  for from = 1, #ids, MOST do
    local some = {unpack(ids, from, math.min(from + MOST - 1, #ids))}
    for i, text in ipairs(redis.call('HMGET', about, unpack(some))) do
      if text then
        records[#records + 1], records[#records + 2] = some[i], text
      end
    end
  end
end

if kind == 'hash' then
  local mode = redis.call('HGET', name, 'mode')
  if redis.call('HLEN', name) <= MOST then
    content = redis.call('HGETALL', name)
  else
    content = redis.call('HSCAN', name, 0, 'COUNT', MOST)[2]
    if mode then
      content[#content + 1], content[#content + 2] = 'mode', mode
    end
  end
  -- One lookup for each reader, and more for readers that re-entered, within the limit.
  local more = MOST
  for i = 1, #content, 2 do
    local looks = math.min(mode and tonumber(content[i + 1]) or 0, 1 + more)
    more = more - math.max(0, looks - 1)
    times[#times + 1] = time_of(ARGV[1], content[i], looks) or 0
    local text = times[#times] > 0 and redis.pcall('GET', ARGV[1] .. ':' .. content[i] .. ':rwlock_timeout:1')
    if type(text) == 'string' and string.find(text, ' ', 1, true) then
      records[#records + 1], records[#records + 2] = content[i], text
    end
  end
  local id, text = string.match(redis.call('GET', writer) or '', '^(%S+) (.*)$')
  if id then
    records[#records + 1], records[#records + 2] = id, text
  end
  look_up(content, 2)
elseif kind == 'string' and redis.call('STRLEN', name) <= 1024 then
  content = redis.call('GET', name)
  look_up({content}, 1)
end
local waiting = redis.call('ZRANGE', waiters, 0, MOST - 1, 'WITHSCORES')
local queued = redis.call('LRANGE', queue, 0, MOST - 1)
local holds = redis.call('ZRANGE', ours, 0, MOST - 1, 'WITHSCORES')
look_up(waiting, 2)
look_up(queued, 1)
local before = #records
look_up(holds, 2)
-- Sorted by expiry, as is the shared set.
for i = before + 1, #records, 2 do
  local n = tonumber(string.match(records[i + 1], '^%d+ %S+ (%d+) ')) or 0
  for k = 1, math.min(n, MOST - #permits / 2) do
    permits[#permits + 1], permits[#permits + 2] = records[i], permit(records[i], k)
  end
end
return {
  kind,
  redis.call('PTTL', name),
  content,
  records,
  waiting,
  queued,
  redis.call('ZRANGE', ends, 0, MOST - 1, 'WITHSCORES'),
  holds,
  redis.call('GET', fence),
  redis.call('GET', token),
  redis.call('GET', mark),
  times,
  now,
  redis.call('ZRANGE', stamps, 0, MOST - 1, 'WITHSCORES'),
  permits,
  redis.call('ZCARD', ends),
}
