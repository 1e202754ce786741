-- args: pool, limit, worker, length, still -> {wait, {key, token, generation, source, class, lane, starts, start}*}
-- Best class first; within it the lane that waited longest; within a lane the oldest task.
local pool, want, worker, length, still = args[1], args[2], args[3], args[4], args[5]
local stream, deadline = P .. 's:' .. pool, now + length
local out, mine, visits = {}, {}, 0
if not still then drop_places() end
promote($PROMOTE)
show_entered()
unpark_freed()

-- Lanes of one round that may go, and how much of each.
local function choose(class, due, lanes)
  local next_at, start_at = call('ZMSCORE', P .. 'nxt', unpack(lanes)), call('ZMSCORE', P .. 'st', unpack(lanes))
  local policies, holds = call('HMGET', P .. 'pol', unpack(lanes)), {}
  if call('EXISTS', P .. 'hold') == 1 then holds = call('HMGET', P .. 'hold', unpack(lanes)) end
  local chosen, keys = {}, {}
  for i, lane in ipairs(lanes) do
    if want <= #keys then break end
    local gap, jitter, limit = policy(policies[i])
    local at = max(tonumber(next_at[i] or 0), born_later(gap, jitter), held_until(holds[i]))
    local free = at <= now and room(lane, limit) or 1
    if at > now then
      call('ZADD', due, at, lane)
    elseif free <= 0 then
      park(due, lane, now)
    else
      local first, wanted = max(now, tonumber(start_at[i] or 0)), min(want - #keys, free)
      if gap > 0 then wanted = min(wanted, max(1, 1 + floor((now + $HORIZON - first) / gap))) end
      local ready = call('ZRANGE', P .. 'r:' .. pool .. ':' .. lane, 0, wanted, 'WITHSCORES')
      local best = ready[2] and floor(ready[2] / CLASS)
      if best ~= class then
        call('ZREM', due, lane)
        if best then call('ZADD', P .. 'due:' .. pool .. ':' .. best, now, lane) end
      else
        local number = 0
        while number < wanted and ready[2 * number + 2] and floor(ready[2 * number + 2] / CLASS) == class do
          number = number + 1
          keys[#keys + 1] = ready[2 * number - 1]
        end
        chosen[#chosen + 1] = {lane, number, gap, jitter, free, first, ready[2 * number + 2]}
      end
    end
  end
  return chosen, keys
end

local function take(class, due, chosen, keys)
  local texts, held = call('HMGET', P .. 't', unpack(keys)), call('HMGET', P .. 'l', unpack(keys))
  local attempts = call('EXISTS', P .. 'att') == 1 and call('HMGET', P .. 'att', unpack(keys)) or {}
  local rest = '\n' .. pool .. '\n' .. format('%.0f', length) .. '\n0\n'
  local at, leases, ends = 0, {}, {}
  for _, one in ipairs(chosen) do
    local lane, number, gap, jitter, free, first, following = unpack(one, 1, 7)
    local gone, slots, put = {}, {}, 0
    for x = 1, number do
      at = at + 1
      local key = keys[at]
      local _, its_pool, generation, _, hash, its_lane = read_task(texts[at] or '')
      gone[x] = key
      if texts[at] and not its_lane then set_aside(key, texts[at]) end
      if its_lane == lane and its_pool == pool and not held[at] then
        local id = call('XADD', stream, '*', 'k', key)
        local start = first + (put > 0 and max(0, put * gap - jitter) or 0)
        put = put + 1
        local row = {key, id, tonumber(generation), hash, class, lane, (read_attempts(attempts[at])), start}
        out[#out + 1], mine[id] = row, true
        leases[#leases + 1], leases[#leases + 2] = key,
          id .. rest .. id .. '\n' .. worker .. '\n' .. lane
        ends[#ends + 1], ends[#ends + 2] = deadline, key
        slots[#slots + 1], slots[#slots + 2] = deadline, key .. '|' .. id
      end
    end
    call('ZREM', P .. 'r:' .. pool .. ':' .. lane, unpack(gone))
    local next_at = now
    if put > 0 then
      call('ZADD', P .. 'slots:' .. lane, unpack(slots))
      if gap > 0 then
        next_at = first + max(0, put * gap - jitter)
        call('ZADD', P .. 'nxt', next_at, lane)
      end
      want = want - put
    end
    local best = following and floor(following / CLASS)
    if best ~= class then call('ZREM', due, lane) end
    if best then
      local target = P .. 'due:' .. pool .. ':' .. best
      if free <= put then park(target, lane, next_at) else call('ZADD', target, next_at, lane) end
    end
  end
  if #ends > 0 then
    call('HSET', P .. 'l', unpack(leases))
    call('ZADD', P .. 'ends', unpack(ends))
  end
end

for class = 0, 2 do
  local due = P .. 'due:' .. pool .. ':' .. class
  while want > 0 and visits < $VISITS do
    local lanes = call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, min(want, $LANES_A_ROUND))
    if #lanes == 0 then break end
    visits = visits + #lanes
    local chosen, keys = choose(class, due, lanes)
    if #keys > 0 then take(class, due, chosen, keys) end
  end
end

-- What the group hands over is delivered, and belongs to who took it; what else it hands over was lost from it.
if #out > 0 then
  local missing, rounds = #out, 0
  while missing > 0 and rounds < $ROUNDS do
    rounds = rounds + 1
    local entries = read_group(pool, worker, #out + 100)
    if #entries == 0 then break end
    for _, entry in ipairs(entries) do
      if mine[entry[1]] then mine[entry[1]], missing = nil, missing - 1 else settle_stray(pool, entry[1], entry[2][2]) end
    end
  end
  -- The group was set past the stream's end by hand.
  for id in pairs(mine) do call('XCLAIM', stream, 'w', worker, 0, id, 'FORCE', 'JUSTID') end
  call('HSET', META, 'last', now)
  for _, name in ipairs({'nxt', 'st'}) do
    local past = call('ZRANGEBYSCORE', P .. name, '-inf', now, 'LIMIT', 0, 2 * $LANES_A_ROUND)
    if #past > 0 then call('ZREM', P .. name, unpack(past)) end
  end
end

local wait = $LONGEST_WAIT
local function sooner(at) if at then wait = max(0, min(wait, math.ceil(at - now))) end end
for class = 0, 2 do sooner(call('ZRANGE', P .. 'due:' .. pool .. ':' .. class, 0, 0, 'WITHSCORES')[2]) end
sooner(call('ZRANGE', P .. 'delay', 0, 0, 'WITHSCORES')[2])
if not still then sooner(call('ZRANGE', P .. 'pe', 0, 0, 'WITHSCORES')[2]) end
-- More is due: one who waits follows.
if #out > 0 and wait == 0 then wake(pool) end
return answer({wait, out})
