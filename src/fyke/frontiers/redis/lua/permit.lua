-- args: key, token, lane, limit, draw, still -> wait, or false where the lease is not the live one
local key, token, lane, limit, draw, still = unpack(args, 1, 6)
local lease = owned({{key, token}})[1]
if not lease then return answer(false) end
if not still then drop_places() end
local member
if lane ~= lease.lane then member = key .. '|' .. token end
local wait = reserve(lane, limit, draw, member, lease.length, tonumber(call('ZSCORE', P .. 'ends', key) or now + lease.length))
unpark_freed()
return answer(wait)
