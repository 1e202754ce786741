-- Counts the calls that changed something: one that comes back lower tells that writes were lost.
tick = call('HINCRBY', META, 'tick', 1)
if now > high + $SMALL_STEP then call('HSET', META, 'high', now) end
