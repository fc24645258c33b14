-- Keeps the set of members, as leastassigned_sync.lua does, and returns all:
-- endpoint, leases, assignments so far, endpoint, …
-- KEYS[5]  sorted set: endpoint -> when a process last had it
-- ARGV[1]  JSON: names, steps (of the names), gone, idle (milliseconds)
local want = cjson.decode(ARGV[1])
sweep()

-- Leases end an endpoint's time in the set, not the other way about: their
-- number stays, and drains.
local function take_out(name)
  local member = redis.call('HGET', KEYS[2], 'm:' .. name)
  if member then
    redis.call('ZREM', KEYS[1], member)
    redis.call('HDEL', KEYS[2], 'm:' .. name)
  end
  redis.call('ZREM', KEYS[5], name)
end

-- Redis may have dropped the leases alone, to make room.
if redis.call('EXISTS', KEYS[3]) == 0 then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'n:' and all[i + 1] ~= '0' then
      redis.call('HSET', KEYS[2], all[i], 0)
      local member = redis.call('HGET', KEYS[2], 'm:' .. string.sub(all[i], 3))
      if member then
        redis.call('ZADD', KEYS[1], 0, member)
      end
    end
  end
  redis.call('DEL', KEYS[4])
end

for _, name in ipairs(want.gone) do
  take_out(name)
end
local counts = {}
for i, name in ipairs(want.names) do
  redis.call('ZADD', KEYS[5], now, name)
  local held = tonumber(redis.call('HGET', KEYS[2], 'n:' .. name) or 0)
  local member = redis.call('HGET', KEYS[2], 'm:' .. name)
  if not member then
    member = string.rep('0', 16) .. ':' .. name
    redis.call('HSET', KEYS[2], 'm:' .. name, member)
  end
  redis.call('HSET', KEYS[2], 's:' .. name, want.steps[i])
  redis.call('ZADD', KEYS[1], held * want.steps[i], member)
end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now - want.idle, 'LIMIT', 0, 100)) do
  take_out(name)
end
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local name = string.sub(member, 18)
  counts[#counts + 1] = name
  counts[#counts + 1] = redis.call('HGET', KEYS[2], 'n:' .. name) or '0'
  counts[#counts + 1] = redis.call('HGET', KEYS[2], 'a:' .. name) or '0'
end
return counts
