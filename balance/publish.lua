-- Publishes the change ARGV[2] (JSON) of the endpoint ARGV[1], and forgets
-- removals that no process has to be told of any more.
-- KEYS[1]  hash: endpoint -> change
-- ARGV[3]  milliseconds after which this change may be forgotten; 0: never
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local till = string.match(all[i + 1], '^{"till":(%d+),')
  if till and tonumber(till) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  end
end
local change = ARGV[2]
if ARGV[3] ~= '0' then
  change = string.format('{"till":%.0f,', now + tonumber(ARGV[3])) .. string.sub(change, 2)
end
redis.call('HSET', KEYS[1], ARGV[1], change)
