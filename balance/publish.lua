-- Publishes the change ARGV[2] (JSON) of the endpoint ARGV[1], and forgets
-- removals whose time is over. Returns 1, or 0 if there is no room.
-- KEYS[1]  hash: endpoint -> change
-- ARGV[3]  milliseconds after which this change may be forgotten; 0: never
-- ARGV[4]  how many changes are kept. Beyond that the removal whose time ends
--          first is forgotten.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local all = redis.call('HGETALL', KEYS[1])
local first, first_till
for i = 1, #all, 2 do
  local till = tonumber(string.match(all[i + 1], '^{"till":(%d+),') or '')
  if till and till <= now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif till and (not first or till < first_till) then
    first, first_till = all[i], till
  end
end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if not first then
    return 0
  end
  redis.call('HDEL', KEYS[1], first)
end
local change = ARGV[2]
if ARGV[3] ~= '0' then
  change = string.format('{"till":%.0f,', now + tonumber(ARGV[3])) .. string.sub(change, 2)
end
redis.call('HSET', KEYS[1], ARGV[1], change)
return 1
