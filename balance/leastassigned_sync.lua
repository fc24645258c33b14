-- Keeps the set of members: admits those that a process has and the set has
-- not, takes out those that it was told to or that no process has had for a
-- while, and returns all: endpoint, count, endpoint, count, …
-- KEYS[1]  sorted set: endpoint -> count
-- KEYS[2]  hash: endpoint -> what an assignment costs
-- KEYS[3]  hash: endpoint that was taken out -> its count, and until when that is kept
-- KEYS[4]  sorted set: endpoint -> when a process last had it
-- ARGV[1]  JSON: names, steps (of the names), gone (to be taken out), raise
--          (of the names: those that come back after they were left out), out
--          (those that the caller leaves out), keep and idle (milliseconds)
local want = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function take_out(name)
  local score = redis.call('ZSCORE', KEYS[1], name)
  if score then
    redis.call('ZREM', KEYS[1], name)
    redis.call('HSET', KEYS[3], name, score .. ' ' .. string.format('%.0f', now + want.keep))
    redis.call('PEXPIRE', KEYS[3], math.max(1, want.keep))
  end
  redis.call('HDEL', KEYS[2], name)
  redis.call('ZREM', KEYS[4], name)
end

-- A count that was kept, if that is not too long ago.
local function kept(name)
  local record = redis.call('HGET', KEYS[3], name)
  redis.call('HDEL', KEYS[3], name)
  local score, till = string.match(record or '', '^(%S+) (%S+)$')
  return score and tonumber(till) > now and tonumber(score) or 0
end

for _, name in ipairs(want.gone) do
  take_out(name)
end

-- What the members have at least, without those that are (to be) left out.
local skip = {}
for _, name in ipairs(want.out) do skip[name] = true end
local raise = {}
for _, name in ipairs(want.raise) do
  skip[name] = true
  raise[name] = true
end
local least
local lowest = redis.call('ZRANGE', KEYS[1], 0, #want.out + #want.raise, 'WITHSCORES')
for i = 1, #lowest, 2 do
  if not skip[lowest[i]] then
    least = tonumber(lowest[i + 1])
    break
  end
end

for i, name in ipairs(want.names) do
  redis.call('ZADD', KEYS[4], now, name)
  redis.call('HSET', KEYS[2], name, want.steps[i])
  local score = redis.call('ZSCORE', KEYS[1], name)
  if not score or raise[name] then
    local start = score and tonumber(score) or kept(name)
    -- A count far above all others is from before they were lowered.
    if least and (start < least or start - least > 4503599627370496) then
      start = least
    end
    redis.call('ZADD', KEYS[1], string.format('%.0f', start), name)
  end
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - want.idle, 'LIMIT', 0, 100)) do
  take_out(name)
end
return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
