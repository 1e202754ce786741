-- args: step, part, cursor -> next cursor. After the clock moved: waits keep within their own length.
local step, part, cursor = args[1], args[2], args[3]
if part == 'done' then
  call('HSET', META, 'high', now)
  return answer('0')
end
local name, class = match(part, '^(%a+):?(.*)$')
local reply
if name == 'hold' then
  reply = call('HSCAN', P .. name, cursor, 'COUNT', $SETTLE)
else
  reply = call('ZSCAN', P .. name .. (class ~= '' and ':' .. class or ''), cursor, 'COUNT', $SETTLE)
end
for i = 1, #reply[2], 2 do
  local one, at = reply[2][i], tonumber(reply[2][i + 1])
  if name == 'hold' then
    local till, length, reason = match(reply[2][i + 1], '^(%d+)\n(%d+)\n(.*)$')
    if tonumber(till) > now + tonumber(length) then
      call('HSET', P .. name, one, format('%.0f\n%s\n%s', now + length, length, reason))
    end
  elseif name == 'delay' then
    local _, delay = read_attempts(call('HGET', P .. 'att', one))
    if at > now + delay then call('ZADD', P .. name, now + delay, one) end
  elseif name == 'ends' then
    local text = call('HGET', P .. 'l', one)
    local lease = text and read_lease(text)
    if lease and at > now + 2 * lease.length then
      call('ZADD', P .. name, now + lease.length, one)
      call('ZADD', P .. 'slots:' .. lease.lane, now + lease.length, one .. '|' .. lease.token)
    end
  elseif name == 'pe' then
    local text = call('HGET', P .. 'per', one) or '0'
    local length = tonumber(match(text, '^%d+'))
    if at > now + 2 * length then
      call('ZADD', P .. name, now + length, one)
      for lane in string.gmatch(text, '\n([^\n]+)') do call('ZADD', P .. 'slots:' .. lane, 'XX', now + length, one) end
    end
  elseif name == 'nxt' or name == 'st' then
    local gap, jitter = policy(call('HGET', P .. 'pol', one))
    -- A start that is still waited for belongs to a task or permit in flight: no more of them lie ahead.
    local furthest = now + (1 + call('ZCARD', P .. 'slots:' .. one)) * (gap + jitter)
    if step <= 0 and at > furthest then call('ZADD', P .. name, furthest, one) end
    -- After a leap forward nobody knows how long ago the last start was: the lane starts one gap later.
    if step > 0 and name == 'st' and gap > 0 and at > now - step then
      call('ZADD', P .. 'nxt', 'GT', furthest, one)
      call('ZADD', P .. 'st', 'GT', furthest, one)
    end
  else
    local earliest = lane_at(one)
    if at > earliest then call('ZADD', P .. part, earliest, one) end
  end
end
if born > now then call('HSET', META, 'born', now) end
return answer(reply[1])
