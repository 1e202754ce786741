-- args: part, cursor, count -> {next cursor, requeued, restored, removed}. Sweeps all places both ways, for damage that
-- somebody did from outside: what a script leaves is whole.
local part, cursor, count = args[1], args[2], args[3]
local requeued, restored, removed = 0, 0, 0
local name, pool, lane = match(part, '^(%a+):?(%a*):?(.*)$')

local function scan(command, key) return call(command, key, cursor, 'COUNT', count) end

-- What the list of leased tasks lost gets a new entry; the lease goes on.
local function restore(key, lease)
  local stream = P .. 's:' .. lease.pool
  if #call('XRANGE', stream, lease.entry, lease.entry) > 0 then return end
  call('XACK', stream, 'w', lease.entry)
  lease.entry = call('XADD', stream, '*', 'k', key)
  call('HSET', P .. 'l', key, write_lease(lease))
  for _, entry in ipairs(read_group(lease.pool, lease.worker, 100)) do settle_stray(lease.pool, entry[1], entry[2][2]) end
  restored = restored + 1
end

local function look_at_task(key, text, lease_text, place)
  local _, its_pool, _, _, _, its_lane = read_task(text)
  if not its_lane then
    set_aside(key, text)
  elseif lease_text then
    local lease = read_lease(lease_text)
    local deadline = tonumber(call('ZSCORE', P .. 'ends', key) or now + lease.length)
    call('ZADD', P .. 'ends', deadline, key)
    call('ZADD', P .. 'slots:' .. lease.lane, deadline, key .. '|' .. lease.token)
    removed = removed + call('ZREM', P .. 'r:' .. its_pool .. ':' .. its_lane, key) + call('ZREM', P .. 'delay', key)
    restore(key, lease)
  elseif place == 'delayed' then
    removed = removed + call('ZREM', P .. 'r:' .. its_pool .. ':' .. its_lane, key)
  elseif not place then
    put_back(key, text)
    requeued = requeued + 1
  elseif place == 'hidden' then
    show(its_lane)
    requeued = requeued + 1
  end
end

local next_cursor, remove = '0', {}
if name == 't' then
  local reply = scan('HSCAN', P .. 't')
  local keys, texts = {}, {}
  for i = 1, #reply[2], 2 do keys[#keys + 1], texts[#texts + 1] = reply[2][i], reply[2][i + 1] end
  if #keys > 0 then
    local leased = call('HMGET', P .. 'l', unpack(keys))
    local found = places(keys, texts, leased)
    for i, key in ipairs(keys) do look_at_task(key, texts[i], leased[i], found[i]) end
  end
  next_cursor = reply[1]
elseif name == 'l' then
  local reply = scan('HSCAN', P .. 'l')
  for i = 1, #reply[2], 2 do
    if call('HEXISTS', P .. 't', reply[2][i]) == 0 then
      void(reply[2][i], reply[2][i + 1])
      removed = removed + 1
    end
  end
  next_cursor = reply[1]
elseif name == 'att' then
  local reply = scan('HSCAN', P .. 'att')
  for i = 1, #reply[2], 2 do
    if call('HEXISTS', P .. 't', reply[2][i]) == 0 then remove[#remove + 1] = reply[2][i] end
  end
  if #remove > 0 then removed = removed + call('HDEL', P .. 'att', unpack(remove)) end
  next_cursor = reply[1]
elseif name == 'per' then
  local reply = scan('HSCAN', P .. 'per')
  for i = 1, #reply[2], 2 do
    if not call('ZSCORE', P .. 'pe', reply[2][i]) then
      end_places(reply[2][i], reply[2][i + 1])
      removed = removed + 1
    end
  end
  next_cursor = reply[1]
elseif name == 's' then
  -- Entries that no lease names, then what is pending without an entry.
  local stream, last = P .. 's:' .. pool, nil
  for _, entry in ipairs(call('XRANGE', stream, cursor == '0' and '-' or '(' .. cursor, '+', 'COUNT', count)) do
    local text = call('HGET', P .. 'l', entry[2][2] or '')
    if not text or read_lease(text).entry ~= entry[1] then
      call('XACK', stream, 'w', entry[1])
      removed = removed + call('XDEL', stream, entry[1])
    end
    last = entry[1]
  end
  next_cursor = last or '0'
elseif name == 'pending' then
  local stream, last = P .. 's:' .. pool, nil
  read_group(pool, 'reaper', 1)
  for _, entry in ipairs(call('XPENDING', stream, 'w', cursor == '0' and '-' or '(' .. cursor, '+', count)) do
    if #call('XRANGE', stream, entry[1], entry[1]) == 0 then removed = removed + call('XACK', stream, 'w', entry[1]) end
    last = entry[1]
  end
  next_cursor = last or '0'
  if not last then
    -- A worker's name goes with its last task only: what is pending under it would be forgotten.
    for _, consumer in ipairs(call('XINFO', 'CONSUMERS', stream, 'w')) do
      if consumer[4] == 0 and consumer[6] > $IDLE then call('XGROUP', 'DELCONSUMER', stream, 'w', consumer[2]) end
    end
  end
else
  local key = P .. part
  local reply = scan('ZSCAN', key)
  local tasks = {}
  if name == 'r' and reply[2][1] then
    local keys = {}
    for i = 1, #reply[2], 2 do keys[(i + 1) / 2] = reply[2][i] end
    tasks = call('HMGET', P .. 't', unpack(keys))
  end
  for i = 1, #reply[2], 2 do
    local one, at, gone = reply[2][i], tonumber(reply[2][i + 1]), false
    if name == 'ends' then
      gone = call('HEXISTS', P .. 'l', one) == 0
    elseif name == 'pe' then
      gone = call('HEXISTS', P .. 'per', one) == 0
    elseif name == 'delay' then
      gone = call('HEXISTS', P .. 't', one) == 0
    elseif name == 'r' then
      local _, its_pool, _, _, _, its_lane = read_task(tasks[(i + 1) / 2] or '')
      gone = its_pool ~= pool or its_lane ~= lane
    elseif name == 'slots' then
      local its_key, token = match(one, '^(.*)|([^|]*)$')
      local text = its_key and call('HGET', P .. 'l', its_key)
      gone = at <= now and not (text and read_lease(text).token == token) and not call('ZSCORE', P .. 'pe', one)
    end
    if gone then remove[#remove + 1] = one end
  end
  if #remove > 0 then
    removed = removed + call('ZREM', key, unpack(remove))
    if name == 'slots' then
      freed[string.sub(part, 7)], any_freed = true, true
    end
  end
  next_cursor = reply[1]
end
show_entered()
unpark_freed()
return answer({next_cursor, requeued, restored, removed})
