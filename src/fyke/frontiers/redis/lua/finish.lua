-- args: counter (acked, buried), {key, token}* -> {ours*}
local found, ended = end_leases(args[2])
if #ended > 0 then
  call('HDEL', P .. 't', unpack(ended))
  call('HDEL', P .. 'att', unpack(ended))
  call('HINCRBY', META, args[1], #ended)
end
unpark_freed()
local ours = {}
for i, lease in ipairs(found) do ours[i] = lease and true end
return answer({ours, foreign})
