-- After a step the waits are set right first (settle), and nobody reaps for one lease.
local expected = tonumber(ARGV[2])
if now < high - $SMALL_STEP or (expected > 0 and math.abs(now - expected) > $STEP) then
  return redis.error_reply('CLOCK_STEP ' .. format('%.0f', now))
end
