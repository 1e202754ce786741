-- Lanes: pol h gap,jitter,limit,stamp | hold h until,length,reason | nxt, st z next lease and next start
-- r:<pool>:<lane> z ready tasks | due:<pool>:<class> z lane -> ms, a hint that a lease corrects on sight
-- slots:<lane> z lease or permit -> deadline | parked s lanes that were full when looked at
local CLASS = 17592186044416
local POOLS = {'text', 'render'}

local function policy(text)
  if not text then return $GAP, $JITTER, $LIMIT end
  local gap, jitter, limit = match(text, '^(%d+),(%d+),(%d+)')
  return tonumber(gap), tonumber(jitter), tonumber(limit)
end

-- A lane that was lost with everything else starts one gap later than the frontier was made.
local function born_later(gap, jitter) return gap > 0 and born + gap + jitter or 0 end

-- Nothing is held longer than its own length, whatever a clock said when it was written.
local function held_until(text)
  if not text then return 0 end
  local till, length = match(text, '^(%d+)\n(%d+)')
  return min(tonumber(till), now + tonumber(length))
end

local function lane_at(lane)
  local gap, jitter = policy(call('HGET', P .. 'pol', lane))
  local next_at = tonumber(call('ZSCORE', P .. 'nxt', lane) or 0)
  return max(now, next_at, born_later(gap, jitter), held_until(call('HGET', P .. 'hold', lane)))
end

local woken = {}
local function wake(pool)
  if not woken[pool] then
    woken[pool] = true
    if call('LLEN', P .. 'wake:' .. pool) < $WAKES then call('RPUSH', P .. 'wake:' .. pool, 1) end
  end
end

-- Where a lease finds a lane that has ready tasks; those who wait were told a later time.
local function show(lane)
  local at
  for _, pool in ipairs(POOLS) do
    local head = call('ZRANGE', P .. 'r:' .. pool .. ':' .. lane, 0, 0, 'WITHSCORES')
    if head[1] then
      at = at or lane_at(lane)
      call('ZADD', P .. 'due:' .. pool .. ':' .. floor(head[2] / CLASS), at, lane)
      wake(pool)
    end
  end
end

-- Tasks that become ready are written by lane, and their lanes shown, when the script has seen them all.
local entered, lanes_entered = {text = {}, render = {}}, {}
local function enter(pool, lane, score, key, class)
  class = class or floor(score / CLASS)
  local known = entered[pool][lane]
  if not known then
    known = {lane = lane, pool = pool, class = class, size = 0, list = {}}
    entered[pool][lane] = known
    lanes_entered[#lanes_entered + 1] = known
  elseif known.class > class then
    known.class = class
  end
  local size = known.size
  known.list[size + 1], known.list[size + 2], known.size = score, key, size + 2
end

local function show_entered()
  if #lanes_entered == 0 then return end
  local lanes, due = {}, {}
  for i, one in ipairs(lanes_entered) do lanes[i] = one.lane end
  local policies, next_at = call('HMGET', P .. 'pol', unpack(lanes)), call('ZMSCORE', P .. 'nxt', unpack(lanes))
  local holds = call('EXISTS', P .. 'hold') == 1 and call('HMGET', P .. 'hold', unpack(lanes)) or {}
  for i, one in ipairs(lanes_entered) do
    call('ZADD', P .. 'r:' .. one.pool .. ':' .. one.lane, unpack(one.list))
    local gap, jitter = policy(policies[i])
    local at = max(now, tonumber(next_at[i] or 0), born_later(gap, jitter), held_until(holds[i]))
    local name = one.pool .. ':' .. one.class
    local list = due[name]
    if not list then
      list = {'NX'}
      due[name] = list
    end
    local size = #list
    list[size + 1], list[size + 2] = at, one.lane
    wake(one.pool)
  end
  for name, list in pairs(due) do call('ZADD', P .. 'due:' .. name, unpack(list)) end
  entered, lanes_entered = {text = {}, render = {}}, {}
end

local freed, any_freed = {}, false
local function free_slots(lane, members)
  call('ZREM', P .. 'slots:' .. lane, unpack(members))
  freed[lane], any_freed = true, true
end

local function unpark_freed()
  if not any_freed or call('EXISTS', P .. 'parked') == 0 then return end
  for lane in pairs(freed) do
    if call('SREM', P .. 'parked', lane) == 1 then show(lane) end
  end
end
