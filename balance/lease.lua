-- The beginning of all scripts on leases.
-- KEYS[1]  sorted set of those that may be chosen: the number of the latest
--          assignment (16 digits) and the endpoint -> in flight × step, so that
--          the first is the one to choose
-- KEYS[2]  hash: n:endpoint -> leases, a:endpoint -> assignments so far,
--          m:endpoint -> its member of KEYS[1], s:endpoint -> step, turn
-- KEYS[3]  sorted set: lease -> when it lapses, in milliseconds of this server
-- KEYS[4]  hash: lease -> endpoint
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Ends a lease, and returns its endpoint; nil if there is no such lease.
local function give_back(lease)
  local name = redis.call('HGET', KEYS[4], lease)
  redis.call('ZREM', KEYS[3], lease)
  if not name then
    return nil
  end
  redis.call('HDEL', KEYS[4], lease)
  local held = tonumber(redis.call('HGET', KEYS[2], 'n:' .. name) or 0)
  if held > 0 then
    redis.call('HINCRBY', KEYS[2], 'n:' .. name, -1)
    local member = redis.call('HGET', KEYS[2], 'm:' .. name)
    if member then
      redis.call('ZINCRBY', KEYS[1], -tonumber(redis.call('HGET', KEYS[2], 's:' .. name) or 1), member)
    end
  end
  return name
end

-- Ends leases that have lapsed, at most 100, and returns how many.
local function sweep()
  local lapsed = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)
  for _, lease in ipairs(lapsed) do
    give_back(lease)
  end
  return #lapsed
end
