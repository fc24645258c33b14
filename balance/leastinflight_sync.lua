-- leastinflight_sync
-- Keeps the set of endpoints, as leastassigned_sync.lua does, and returns all:
-- endpoint, leases, assignments so far, endpoint, …
-- KEYS[5]  sorted set: endpoint -> when a process last had it
-- ARGV[1]  JSON: names, steps (of the names), ineligible, keep and idle
--          (milliseconds)
local want = cjson.decode(ARGV[1])
sweep()

-- A removed endpoint keeps its leases: their number drains as they end.
local function take_out(name)
  local member = redis.call('HGET', KEYS[2], 'm:' .. name)
  if member then
    redis.call('ZREM', KEYS[1], member)
    redis.call('HDEL', KEYS[2], 'm:' .. name)
    redis.call('HSET', KEYS[2], 'd:' .. name, string.format('%.0f', now + want.keep))
  end
  redis.call('ZREM', KEYS[5], name)
end

-- The fields of the hash, by the letter in front and the endpoint.
local is = {n = {}, a = {}, m = {}, s = {}, d = {}}
local total = 0
local state = redis.call('HGETALL', KEYS[2])
for i = 1, #state, 2 do
  local letter, name = string.match(state[i], '^(%l):(.*)$')
  if letter and is[letter] then
    is[letter][name] = state[i + 1]
    if letter == 'n' then
      total = total + tonumber(state[i + 1])
    end
  end
end

-- Redis may evict one of these keys and keep the others. Then the leases that
-- are complete are counted again.
local held, leases = redis.call('HLEN', KEYS[4]), redis.call('ZCARD', KEYS[3])
local recount = held ~= leases or held ~= total
if recount then
  local counted = {}
  for _, lease in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    local name = redis.call('HGET', KEYS[4], lease)
    if name then
      counted[name] = (counted[name] or 0) + 1
    else
      redis.call('ZREM', KEYS[3], lease)
    end
  end
  for _, lease in ipairs(redis.call('HKEYS', KEYS[4])) do
    if not redis.call('ZSCORE', KEYS[3], lease) then
      redis.call('HDEL', KEYS[4], lease)
    end
  end
  for name in pairs(is.n) do
    counted[name] = counted[name] or 0
  end
  for name, n in pairs(counted) do
    redis.call('HSET', KEYS[2], 'n:' .. name, n)
    is.n[name] = n
  end
end

for _, name in ipairs(want.ineligible) do
  take_out(name)
  is.m[name] = nil
end
for i, name in ipairs(want.names) do
  redis.call('ZADD', KEYS[5], now, name)
  if not is.m[name] then
    is.m[name] = string.rep('0', 16) .. ':' .. name
    redis.call('HSET', KEYS[2], 'm:' .. name, is.m[name])
    redis.call('HDEL', KEYS[2], 'd:' .. name)
    is.d[name] = nil
  end
  is.s[name] = want.steps[i]
  redis.call('HSET', KEYS[2], 's:' .. name, want.steps[i])
  redis.call('ZADD', KEYS[1], tonumber(is.n[name] or 0) * want.steps[i], is.m[name])
end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now - want.idle, 'LIMIT', 0, 100)) do
  take_out(name)
  is.m[name] = nil
end
for name, till in pairs(is.d) do
  if tonumber(till) <= now and tonumber(is.n[name] or 0) == 0 then
    redis.call('HDEL', KEYS[2], 'n:' .. name, 'a:' .. name, 's:' .. name, 'd:' .. name)
  end
end

local counts = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local name = string.sub(member, 18)
  if is.m[name] ~= member then
    redis.call('ZREM', KEYS[1], member) -- from before the hash was lost
  else
    if recount then
      redis.call('ZADD', KEYS[1], tonumber(is.n[name] or 0) * tonumber(is.s[name] or 1), member)
    end
    counts[#counts + 1] = name
    counts[#counts + 1] = tostring(is.n[name] or 0)
    counts[#counts + 1] = is.a[name] or '0'
  end
end
return counts
