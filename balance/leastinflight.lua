-- leastinflight
-- Assigns to the endpoint with the fewest leases for its weight, of equals to
-- the least recently assigned, and returns its name; nil if there is none.
-- ARGV[1]  the new lease; ARGV[2] how long it lasts, in milliseconds
-- ARGV     from 3 on: endpoints that the caller excludes
sweep()
local first = redis.call('ZRANGE', KEYS[1], 0, #ARGV - 2)
for _, member in ipairs(first) do
  local name = string.sub(member, 18)
  local out = false
  for j = 3, #ARGV do
    out = out or ARGV[j] == name
  end
  if not out then
    local has = redis.call('HMGET', KEYS[2], 'n:' .. name, 's:' .. name, 'a:' .. name, 'turn')
    local held, turn = tonumber(has[1] or 0) + 1, tonumber(has[4] or 0) + 1
    local latest = string.format('%016.0f', turn) .. ':' .. name
    -- The HSET is first, because Redis refuses it when its memory is full.
    -- After a ZREM in the same script Redis would let every command pass.
    redis.call('HSET', KEYS[2], 'n:' .. name, held, 'm:' .. name, latest,
      'a:' .. name, string.format('%.0f', tonumber(has[3] or 0) + 1), 'turn', string.format('%.0f', turn))
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZADD', KEYS[1], held * tonumber(has[2] or 1), latest)
    redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), ARGV[1])
    redis.call('HSET', KEYS[4], ARGV[1], name)
    return name
  end
end
return nil
