-- args: {key, token}* -> {ours*}. Back to the old place in the lane, at no cost.
local found, ended = end_leases(args)
local ours = {}
for i, lease in ipairs(found) do
  ours[i] = lease and true
  if lease then
    local key = args[i][1]
    local text = call('HGET', P .. 't', key)
    if lease.begun > 0 then
      local starts, delay, reason = read_attempts(call('HGET', P .. 'att', key))
      write_attempts(key, max(0, starts - 1), delay, reason)
    end
    if text then put_back(key, text) end
  end
end
show_entered()
unpark_freed()
return answer({ours, foreign})
