-- args: key, token, lane -> {length, left} of the live lease, which has or asks for a permit in a lane of another shard
local key, token, lane = unpack(args, 1, 3)
local lease = owned({{key, token}})[1]
if not lease then return answer(false) end
local deadline = tonumber(call('ZSCORE', P .. 'ends', key) or now + lease.length)
add_place(key .. '|' .. token, '>' .. lane, lease.length, deadline)
return answer({lease.length, deadline - now})
