-- Keeps the set of endpoints. Adds the caller's endpoints that the set lacks.
-- Removes those that the caller calls ineligible, and those that no process has
-- had for a while. Returns all: endpoint, assignments, endpoint, …
-- KEYS[1]  sorted set: endpoint -> count
-- KEYS[2]  hash: endpoint -> step, what an assignment adds to the count
-- KEYS[3]  hash: removed endpoint -> its count, until when that is kept, and its
--          assignments
-- KEYS[4]  sorted set: endpoint -> when a process last had it
-- KEYS[5]  hash: endpoint -> its assignments - count ÷ step. It is not 0 once the
--          count or the step was changed.
-- ARGV[1]  JSON: names, steps (of the names), ineligible (to be removed), catch_up
--          (names that come back after they were not picked), absent (names that
--          the caller does not pick now), keep and idle (milliseconds)
local want = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function assignments(name, score)
  local step = tonumber(redis.call('HGET', KEYS[2], name) or 1)
  return score / step + tonumber(redis.call('HGET', KEYS[5], name) or 0)
end

local function take_out(name)
  local score = redis.call('ZSCORE', KEYS[1], name)
  if score then
    local all = redis.call('HGETALL', KEYS[3])
    for i = 1, #all, 2 do
      if tonumber(string.match(all[i + 1], '^%S+ (%S+)') or 0) <= now then
        redis.call('HDEL', KEYS[3], all[i])
      end
    end
    redis.call('ZREM', KEYS[1], name)
    redis.call('HSET', KEYS[3], name, string.format('%s %.0f %.17g', score, now + want.keep, assignments(name, tonumber(score))))
    redis.call('PEXPIRE', KEYS[3], math.max(1, want.keep))
  end
  redis.call('HDEL', KEYS[2], name)
  redis.call('HDEL', KEYS[5], name)
  redis.call('ZREM', KEYS[4], name)
end

-- The kept count and assignments of a removed endpoint; 0 and 0 after its time.
local function kept(name)
  local record = redis.call('HGET', KEYS[3], name)
  redis.call('HDEL', KEYS[3], name)
  local score, till, made = string.match(record or '', '^(%S+) (%S+) ?(%S*)$')
  if score and tonumber(till) > now then
    return tonumber(score), tonumber(made) or tonumber(score)
  end
  return 0, 0
end

for _, name in ipairs(want.ineligible) do
  take_out(name)
end

-- The lowest count, without the endpoints that are absent or must catch up.
local skip = {}
for _, name in ipairs(want.absent) do skip[name] = true end
local catch_up = {}
for _, name in ipairs(want.catch_up) do
  skip[name] = true
  catch_up[name] = true
end
local least
local lowest = redis.call('ZRANGE', KEYS[1], 0, #want.absent + #want.catch_up, 'WITHSCORES')
for i = 1, #lowest, 2 do
  if not skip[lowest[i]] then
    least = tonumber(lowest[i + 1])
    break
  end
end

-- The fewest assignments of any endpoint. A new endpoint starts with as many.
local few
local function fewest()
  if not few then
    few = math.huge
    local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
      if not skip[all[i]] then
        few = math.min(few, assignments(all[i], tonumber(all[i + 1])))
      end
    end
  end
  return few
end

for i, name in ipairs(want.names) do
  redis.call('ZADD', KEYS[4], now, name)
  local step = want.steps[i]
  local same = tonumber(redis.call('HGET', KEYS[2], name) or step) == step
  local score = redis.call('ZSCORE', KEYS[1], name)
  local start, made
  if score then
    start = tonumber(score)
    made = assignments(name, start)
  else
    start, made = kept(name)
  end
  -- A count far above all others dates from before they were lowered.
  if (not score or catch_up[name]) and least and (start < least or start - least > 4503599627370496) then
    start = least
    made = math.max(made, fewest())
  end
  if not score or start ~= tonumber(score) or not same then
    redis.call('ZADD', KEYS[1], string.format('%.0f', start), name)
    redis.call('HSET', KEYS[5], name, string.format('%.17g', made - start / step))
  end
  redis.call('HSET', KEYS[2], name, step)
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - want.idle, 'LIMIT', 0, 100)) do
  take_out(name)
end
local counts = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #counts, 2 do
  counts[i + 1] = string.format('%.0f', math.max(0, assignments(counts[i], tonumber(counts[i + 1]))))
end
return counts
