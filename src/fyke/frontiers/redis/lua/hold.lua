-- args: lane, until (0 lifts), reason
local lane, till, reason = unpack(args, 1, 3)
if till == 0 then
  call('HDEL', P .. 'hold', lane)
  show(lane)
elseif till > now and till > held_until(call('HGET', P .. 'hold', lane)) then
  call('HSET', P .. 'hold', lane, format('%.0f\n%.0f\n%s', till, till - now, reason))
end
return answer(true)
