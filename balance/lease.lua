-- lease
-- The beginning of all scripts on leases. A lease is one unfinished request of
-- one process. Processes die without a word, so a lease has an end, and each
-- script first ends those that have lapsed or looks at their time itself.
-- KEYS[1]  sorted set of the endpoints that may be chosen: number of the latest
--          assignment (16 digits) and endpoint -> in flight × step. The first
--          element is the one to choose.
-- KEYS[2]  hash: n:endpoint -> leases, a:endpoint -> assignments so far,
--          m:endpoint -> its element of KEYS[1], s:endpoint -> step,
--          d:endpoint -> until when the count of a removed endpoint is kept;
--          turn -> number of the latest assignment
-- KEYS[3]  sorted set: lease -> when it lapses, in milliseconds of this server
-- KEYS[4]  hash: lease -> endpoint
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Ends a lease and returns its endpoint; nil if the lease does not exist.
local function give_back(lease)
  local name = redis.call('HGET', KEYS[4], lease)
  redis.call('ZREM', KEYS[3], lease)
  if not name then
    return nil
  end
  redis.call('HDEL', KEYS[4], lease)
  local has = redis.call('HMGET', KEYS[2], 'n:' .. name, 'm:' .. name, 's:' .. name)
  local held = tonumber(has[1] or 0) - 1
  if held >= 0 then
    redis.call('HSET', KEYS[2], 'n:' .. name, held)
    if has[2] then
      redis.call('ZADD', KEYS[1], 'XX', held * tonumber(has[3] or 1), has[2])
    end
  end
  return name
end

-- Ends at most 100 lapsed leases, and returns how many.
local function sweep()
  local lapsed = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)
  for _, lease in ipairs(lapsed) do
    give_back(lease)
  end
  return #lapsed
end
