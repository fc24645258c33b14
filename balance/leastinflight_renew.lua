-- Renews leases for ARGV[1] milliseconds from now. Returns for each of ARGV[2],
-- … 1 if it had not lapsed, else 0.
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
