-- Assigns to the endpoint with the lowest count, of equals to the first in byte
-- order, and returns its name. If there is none, the script returns nil and
-- writes nothing.
-- KEYS[1]  sorted set: endpoint -> count
-- KEYS[2]  only where weights differ: hash, endpoint -> the cost of an assignment
-- ARGV     endpoints that the caller excludes
local lowest = redis.call('ZRANGE', KEYS[1], 0, #ARGV, 'WITHSCORES')
for i = 1, #lowest, 2 do
  local name, score = lowest[i], tonumber(lowest[i + 1])
  local out = false
  for j = 1, #ARGV do
    out = out or ARGV[j] == name
  end
  if not out then
    local step = KEYS[2] and tonumber(redis.call('HGET', KEYS[2], name)) or 1
    -- Beyond 2^53 adding 1 changes nothing. Before that, all counts are lowered
    -- by the lowest. An excluded endpoint with a lower count starts from the
    -- lowest when it is back.
    if score + step > 9007199254740991 then
      local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
      for k = 1, #all, 2 do
        redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(0, tonumber(all[k + 1]) - score)), all[k])
      end
    end
    redis.call('ZINCRBY', KEYS[1], step, name)
    return name
  end
end
return nil
