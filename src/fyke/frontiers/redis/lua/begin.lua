-- args: {key, token, draw}* -> {lost, starts, wait, reserved}*
local found, told, answers, changed, reserved = owned(args), {}, {}, {}, {}
for i, one in ipairs(args) do
  local key, lease = one[1], found[i]
  if not lease then
    answers[i] = {true, 0, 0, true}
  elseif told[key] then
    answers[i] = told[key]
  else
    local starts, delay, reason = read_attempts(call('HGET', P .. 'att', key))
    local hold = held_until(call('HGET', P .. 'hold', lease.lane))
    if hold > now then
      answers[i] = {false, starts, hold - now, false}
    else
      local at = lease.begun
      -- A start that has passed is a new one at no cost; one asked for again after a lost reply is the same.
      if at < now - $SAME_START then
        at = now + reserve(lease.lane, math.huge, one[3])
        if lease.begun == 0 then
          starts = starts + 1
          write_attempts(key, starts, delay, reason)
        end
        lease.begun = at
        changed[#changed + 1], changed[#changed + 2] = key, write_lease(lease)
      end
      answers[i] = {false, starts, max(0, at - now), true}
    end
    told[key] = answers[i]
  end
end
if #changed > 0 then call('HSET', P .. 'l', unpack(changed)) end
return answer(answers)
