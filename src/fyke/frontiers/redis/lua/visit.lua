-- args: member, lane, limit, draw, length, left, still -> wait. A permit for a task of another shard.
local member, lane, limit, draw, length, left, still = unpack(args, 1, 7)
if not still then drop_places() end
local wait = reserve(lane, limit, draw, member, length, now + left)
unpark_freed()
return answer(wait)
