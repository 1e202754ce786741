-- Lanes: pol h gap,jitter,limit,stamp | hold h until,length,reason | nxt, st z next lease and next start
-- r:<pool>:<lane> z ready tasks | due:<pool>:<class> z lane -> ms, a hint that a lease corrects on sight
-- slots:<lane> z lease or permit -> deadline | parked s lanes that were full when looked at
local CLASS = 17592186044416
local POOLS = {'text', 'render'}

local function policy(text)
  if not text then return $GAP, $JITTER, $LIMIT end
  local gap, jitter, limit = string.match(text, '^(%d+),(%d+),(%d+)')
  return tonumber(gap), tonumber(jitter), tonumber(limit)
end

-- A lane that was lost with everything else starts one gap later than the frontier was made.
local function born_later(gap, jitter) return gap > 0 and born + gap + jitter or 0 end

-- Nothing is held longer than its own length, whatever a clock said when it was written.
local function held_until(text)
  if not text then return 0 end
  local till, length = string.match(text, '^(%d+)\n(%d+)')
  return math.min(tonumber(till), now + tonumber(length))
end

local function lane_at(lane)
  local gap, jitter = policy(call('HGET', P .. 'pol', lane))
  local next_at = tonumber(call('ZSCORE', P .. 'nxt', lane) or 0)
  return math.max(now, next_at, born_later(gap, jitter), held_until(call('HGET', P .. 'hold', lane)))
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
      call('ZADD', P .. 'due:' .. pool .. ':' .. math.floor(head[2] / CLASS), at, lane)
      wake(pool)
    end
  end
end

local entered = {}
local function enter(pool, lane, score, key)
  call('ZADD', P .. 'r:' .. pool .. ':' .. lane, score, key)
  local class, name = math.floor(score / CLASS), pool .. lane
  local known = entered[name]
  if not known then entered[name] = {pool, lane, class} elseif known[3] > class then known[3] = class end
end

local function show_entered()
  for _, one in pairs(entered) do
    call('ZADD', P .. 'due:' .. one[1] .. ':' .. one[3], 'NX', lane_at(one[2]), one[2])
    wake(one[1])
  end
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
