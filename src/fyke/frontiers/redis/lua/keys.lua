-- args: cursor, count -> {next cursor, {key, generation}*}
local reply = call('HSCAN', P .. 't', args[1], 'COUNT', args[2])
local found, rows = reply[2], {}
for i = 1, #found, 2 do
  rows[#rows + 1] = {found[i], generation_of(found[i + 1])}
end
return answer({reply[1], rows})
