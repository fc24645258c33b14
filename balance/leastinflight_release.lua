-- Ends the lease ARGV[1]: returns its endpoint, or nil if there is no such
-- lease (any more). One that has lapsed ends, too, but as if it had been swept.
local till = redis.call('ZSCORE', KEYS[3], ARGV[1])
local name = give_back(ARGV[1])
if till and tonumber(till) > now then
  return name
end
return nil
