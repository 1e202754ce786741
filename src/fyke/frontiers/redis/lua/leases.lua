-- Tasks and leases: t h key -> score,pool,generation,since,source,lane | att h key -> starts,delay,reason
-- l h key -> token,pool,length,begun,entry,worker,lane | ends z key -> deadline | s:<pool> stream of what is leased
-- delay z key -> due | per h key|token -> length and lanes of places beside its own | pe z key|token -> their deadline
local function read_task(text)
  return match(text, '^(%d+)\n(%a+)\n(%d+)\n(%d+)\n([^\n]*)\n([^\n]*)$')
end

local function generation_of(text)
  local _, _, generation = read_task(text or '')
  return tonumber(generation or -1)
end

-- What another release wrote and this one cannot read is kept as it is; the reconciler offers the task anew.
local function set_aside(key, text)
  call('HSET', P .. 'aside', key, text)
  call('HDEL', P .. 't', key)
end

local NOW = format('%.0f', now)
local function write_task(score, pool, generation, hash, lane)
  return score .. '\n' .. pool .. '\n' .. generation .. '\n' .. NOW .. '\n' .. hash .. '\n' .. lane
end

local function read_lease(text)
  local token, pool, length, begun, entry, worker, lane =
    match(text, '^([^\n]*)\n(%a+)\n(%d+)\n(%d+)\n([^\n]*)\n([^\n]*)\n(.*)$')
  return {token = token, pool = pool, length = tonumber(length), begun = tonumber(begun), entry = entry,
          worker = worker, lane = lane}
end

local function write_lease(lease)
  return format('%s\n%s\n%.0f\n%.0f\n%s\n%s\n%s', lease.token, lease.pool, lease.length, lease.begun,
                       lease.entry, lease.worker, lease.lane)
end

local function read_attempts(text)
  if not text then return 0, 0, '' end
  local starts, delay, reason = match(text, '^(%d+)\n(%d+)\n(.*)$')
  return tonumber(starts), tonumber(delay), reason
end

local function write_attempts(key, starts, delay, reason)
  call('HSET', P .. 'att', key, format('%.0f\n%.0f\n%s', starts, delay, reason))
end

local foreign = {}
local function end_places(member, text)
  local number = 0
  for lane in string.gmatch(text, '\n([^\n]+)') do
    number = number + 1
    if string.sub(lane, 1, 1) == '>' then
      foreign[#foreign + 1] = {member, string.sub(lane, 2)}
    else
      free_slots(lane, {member})
    end
  end
  call('HDEL', P .. 'per', member)
  call('ZREM', P .. 'pe', member)
end

-- A lane of another shard is written with > before it: the caller looks after the place there.
local function add_place(member, lane, length, deadline)
  local text = call('HGET', P .. 'per', member) or format('%.0f', length)
  if not string.find(text .. '\n', '\n' .. lane .. '\n', 1, true) then
    call('HSET', P .. 'per', member, text .. '\n' .. lane)
  end
  call('ZADD', P .. 'pe', deadline, member)
end

-- Permits end with their leases, though their tasks wait for the reaper; so do places that outlived their tasks.
local function drop_places()
  local members = call('ZRANGEBYSCORE', P .. 'pe', '-inf', now, 'LIMIT', 0, 100)
  if #members == 0 then return end
  local texts = call('HMGET', P .. 'per', unpack(members))
  for i, member in ipairs(members) do end_places(member, texts[i] or '') end
end

-- Leases whose own lane is full are looked at: what no live lease holds any more goes.
local function room(lane, limit)
  local slots = P .. 'slots:' .. lane
  local free = limit - call('ZCARD', slots)
  if free > 0 then return free end
  for _, member in ipairs(call('ZRANGEBYSCORE', slots, '-inf', now, 'LIMIT', 0, 100)) do
    local key, token = match(member, '^(.*)|([^|]*)$')
    local text = key and call('HGET', P .. 'l', key)
    local lease = text and read_lease(text)
    local live = lease and lease.token == token and lease.lane == lane
    if not live and not call('ZSCORE', P .. 'pe', member) then free = free + call('ZREM', slots, member) end
  end
  return free
end

-- A full lane is looked at again when its first place ends.
local function park(due, lane, at)
  call('SADD', P .. 'parked', lane)
  local first = tonumber(call('ZRANGE', P .. 'slots:' .. lane, 0, 0, 'WITHSCORES')[2] or 0)
  if first <= now then first = now + $FULL_WAIT end
  call('ZADD', due, max(first, at), lane)
end

-- The lease is taken from its holder, whose request is in flight: it keeps its places until its deadline.
local function void(key, text)
  local lease = read_lease(text)
  local deadline = tonumber(call('ZSCORE', P .. 'ends', key) or now + lease.length)
  add_place(key .. '|' .. lease.token, lease.lane, lease.length, deadline)
  call('XACK', P .. 's:' .. lease.pool, 'w', lease.entry)
  call('XDEL', P .. 's:' .. lease.pool, lease.entry)
  call('HDEL', P .. 'l', key)
  call('ZREM', P .. 'ends', key)
end

-- Ends leases whose token is the live one; places of those that were voided come free. {lease or false}, in order.
local function end_leases(asked)
  local keys, members, found, taken = {}, {}, {}, {}
  for i, one in ipairs(asked) do keys[i], members[i] = one[1], one[1] .. '|' .. one[2] end
  local texts, places = call('HMGET', P .. 'l', unpack(keys)), {}
  if call('EXISTS', P .. 'per') == 1 then places = call('HMGET', P .. 'per', unpack(members)) end
  local entries, slots, ended = {}, {}, {}
  for i, key in ipairs(keys) do
    found[i] = false
    if texts[i] and not taken[key] then
      local lease = read_lease(texts[i])
      if lease.token == asked[i][2] then
        found[i], taken[key] = lease, true
        ended[#ended + 1] = key
        local stream, lane = entries[lease.pool] or {}, slots[lease.lane] or {}
        entries[lease.pool], slots[lease.lane] = stream, lane
        stream[#stream + 1], lane[#lane + 1] = lease.entry, members[i]
      end
    end
    if places[i] then end_places(members[i], places[i]) end
  end
  for pool, ids in pairs(entries) do
    call('XACK', P .. 's:' .. pool, 'w', unpack(ids))
    call('XDEL', P .. 's:' .. pool, unpack(ids))
  end
  if #ended > 0 then
    call('HDEL', P .. 'l', unpack(ended))
    call('ZREM', P .. 'ends', unpack(ended))
  end
  for lane, list in pairs(slots) do free_slots(lane, list) end
  return found, ended
end

local function owned(asked)
  local keys, found = {}, {}
  for i, one in ipairs(asked) do keys[i] = one[1] end
  local texts = call('HMGET', P .. 'l', unpack(keys))
  for i, one in ipairs(asked) do
    local lease = texts[i] and read_lease(texts[i])
    found[i] = lease and lease.token == one[2] and lease or false
  end
  return found
end

-- The group is made again at the beginning of the stream, never at its end.
local function read_group(pool, worker, count)
  local stream = P .. 's:' .. pool
  for _ = 1, 2 do
    local reply = redis.pcall('XREADGROUP', 'GROUP', 'w', worker, 'COUNT', count, 'STREAMS', stream, '>')
    if not reply then return {} end
    if not reply.err then return reply[1][2] end
    if not string.find(reply.err, 'NOGROUP', 1, true) then error(reply.err) end
    call('XGROUP', 'CREATE', stream, 'w', '0', 'MKSTREAM')
  end
  return {}
end

-- An entry that comes though its task was leased before (its group was lost) goes to its holder, or away.
local function settle_stray(pool, id, key)
  local stream, text = P .. 's:' .. pool, call('HGET', P .. 'l', key or '')
  local lease = text and read_lease(text)
  if lease and lease.entry == id then
    call('XCLAIM', stream, 'w', lease.worker, 0, id, 'JUSTID')
  else
    call('XACK', stream, 'w', id)
    call('XDEL', stream, id)
  end
end

local function put_back(key, text)
  local score, pool, generation, _, hash, lane = read_task(text)
  if not lane then return set_aside(key, text) end
  call('HSET', P .. 't', key, write_task(score, pool, generation, hash, lane))
  enter(pool, lane, score, key)
end
