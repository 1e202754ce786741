-- Reserves a start in a lane, and a place in it for a member that has none. The wait in ms: longer than limit where
-- nothing was reserved.
local function reserve(lane, limit, draw, member, length, deadline)
  local hold = held_until(call('HGET', P .. 'hold', lane))
  -- All who waited for the hold's end in hand would start at once when it ends.
  if hold > now then return max(limit + 1, hold - now) end
  local gap, jitter, most = policy(call('HGET', P .. 'pol', lane))
  local at = now
  if gap > 0 then at = max(now, tonumber(call('ZSCORE', P .. 'st', lane) or 0), born_later(gap, jitter)) end
  if at - now > limit then return at - now end
  if member and not call('ZSCORE', P .. 'slots:' .. lane, member) then
    -- Nobody knows when a place comes free; ask again after a while.
    if room(lane, most) <= 0 then return max(limit + 1, $FULL_WAIT) end
    call('ZADD', P .. 'slots:' .. lane, deadline, member)
    add_place(member, lane, length, deadline)
  end
  if gap > 0 then
    local least = max(0, gap - jitter)
    local following = at + least + floor(draw * (gap + jitter - least + 1))
    call('ZADD', P .. 'st', following, lane)
    call('ZADD', P .. 'nxt', 'GT', following, lane)
  end
  return at - now
end
