-- Lets leases last for another ARGV[1] milliseconds from now: returns 1 for
-- each of ARGV[2], … that had not lapsed, else 0.
local renewed = {}
for i = 2, #ARGV do
  local till = redis.call('ZSCORE', KEYS[3], ARGV[i])
  if till and tonumber(till) > now then
    redis.call('ZADD', KEYS[3], now + tonumber(ARGV[1]), ARGV[i])
    renewed[i - 1] = 1
  else
    renewed[i - 1] = 0
  end
end
return renewed
