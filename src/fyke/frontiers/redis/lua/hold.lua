-- args: lane, until (0 lifts), ms that are left (false: until by this clock), reason
local lane, till, left, reason = unpack(args, 1, 4)
if left and till > 0 then till = now + left end
if till == 0 then
  call('HDEL', P .. 'hold', lane)
  show(lane)
elseif till > now and till > held_until(call('HGET', P .. 'hold', lane)) then
  call('HSET', P .. 'hold', lane, format('%.0f\n%.0f\n%s', till, till - now, reason))
end
return answer(true)
