-- Ends the lease ARGV[1] and returns its endpoint, or nil if the lease does not
-- exist. A lapsed lease ends, too, but the script returns nil as if it had been
-- swept.
local till = redis.call('ZSCORE', KEYS[3], ARGV[1])
local name = give_back(ARGV[1])
if till and tonumber(till) > now then
  return name
end
return nil
