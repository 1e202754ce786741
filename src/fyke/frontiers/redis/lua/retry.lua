-- args: {key, token, delay, counted, reason}* -> {ours*}
local found, ended = end_leases(args)
local ours, scores = {}, {}
for i, lease in ipairs(found) do
  ours[i] = lease and true
  if lease then
    local key, _, delay, counted, reason = unpack(args[i], 1, 5)
    local starts = read_attempts(call('HGET', P .. 'att', key))
    if lease.begun > 0 and not counted then starts = max(0, starts - 1) end
    write_attempts(key, starts, delay, reason)
    scores[#scores + 1], scores[#scores + 2] = now + delay, key
  end
end
if #scores > 0 then
  call('ZADD', P .. 'delay', unpack(scores))
  for _, pool in ipairs(POOLS) do wake(pool) end
end
unpark_freed()
return answer({ours, foreign})
