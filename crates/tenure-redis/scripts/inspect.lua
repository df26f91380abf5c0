-- All that is known of a name.
-- Keys:      name, about, waiters, stamps, queue, ends, our ends, fence, token, mark
-- Arguments: what the keys of readers begin with
-- Reply:     {type, ms left, content, about, waiters, queue, ends, our ends, fence, token, mark, readers' times, now ms, stamps,
--            permits of each hold of ours}
local name, about, waiters, stamps, queue, ends, ours, fence, token, mark = unpack(KEYS)
local now = clock()
local kind = redis.call('TYPE', name)['ok']
local content, times, permits = '', {}, {}
-- A key of another program may be of any size, and say anything.
if kind == 'hash' and redis.call('HLEN', name) <= 100000 then
  content = redis.call('HGETALL', name)
  local shared = redis.call('HEXISTS', name, 'mode') == 1
  for i = 1, #content, 2 do
    times[#times + 1] = shared and time_of(ARGV[1], content[i], tonumber(content[i + 1]) or 0) or 0
  end
elseif kind == 'string' and redis.call('STRLEN', name) <= 1024 then
  content = redis.call('GET', name)
end
local known = redis.call('HGETALL', about)
for i = 1, #known, 2 do
  local n = tonumber(string.match(known[i + 1], '^%d+ %S+ (%d+) ')) or 0
  for k = 1, redis.call('ZSCORE', ours, known[i]) and n or 0 do
    permits[#permits + 1] = known[i]
    permits[#permits + 1] = permit(known[i], k)
  end
end
return {
  kind,
  redis.call('PTTL', name),
  content,
  known,
  redis.call('ZRANGE', waiters, 0, 999, 'WITHSCORES'),
  redis.call('LRANGE', queue, 0, 999),
  redis.call('ZRANGE', ends, 0, 999, 'WITHSCORES'),
  redis.call('ZRANGE', ours, 0, 999, 'WITHSCORES'),
  redis.call('GET', fence),
  redis.call('GET', token),
  redis.call('GET', mark),
  times,
  now,
  redis.call('ZRANGE', stamps, 0, 999, 'WITHSCORES'),
  permits,
}
