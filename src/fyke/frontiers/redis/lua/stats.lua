-- args: part, first, count -> a part of the statistics; the caller puts them together
local part, first, count = args[1], args[2], args[3]
if part == 'totals' then
  local all, delayed, leased = call('HLEN', P .. 't'), call('ZCARD', P .. 'delay'), call('HLEN', P .. 'l')
  local counted, soon = call('HMGET', META, 'last', 'acked', 'buried'), {}
  local function add(at) if at then soon[#soon + 1] = tonumber(at) end end
  add(call('ZRANGE', P .. 'delay', 0, 0, 'WITHSCORES')[2])
  for _, pool in ipairs(POOLS) do
    for class = 0, 2 do add(call('ZRANGE', P .. 'due:' .. pool .. ':' .. class, 0, 0, 'WITHSCORES')[2]) end
  end
  return answer({max(0, all - delayed - leased), delayed, leased, tonumber(counted[1] or 0), tonumber(counted[2] or 0),
                 tonumber(counted[3] or 0), soon, call('HLEN', P .. 'aside')})
end
if part == 'delayed' then
  local lanes, keys = {}, call('ZRANGE', P .. 'delay', first, first + count - 1)
  if #keys == 0 then return answer({false, {}}) end
  for _, text in ipairs(call('HMGET', P .. 't', unpack(keys))) do lanes[#lanes + 1] = text and select(6, read_task(text)) or nil end
  return answer({first + count, lanes})
end
if part == 'leased' then
  local reply, lanes = call('HSCAN', P .. 'l', first, 'COUNT', count), {}
  for i = 2, #reply[2], 2 do lanes[#lanes + 1] = read_lease(reply[2][i]).lane end
  return answer({reply[1], lanes})
end
if part == 'held' then
  local reply, lanes = call('HSCAN', P .. 'hold', first, 'COUNT', count), {}
  for i = 1, #reply[2], 2 do lanes[#lanes + 1] = {reply[2][i], held_until(reply[2][i + 1])} end
  return answer({reply[1], lanes})
end
if part == 'lanes' then
  local rows = {}
  for i, lane in ipairs(first) do
    local gap, jitter = policy(call('HGET', P .. 'pol', lane))
    local next_at = max(tonumber(call('ZSCORE', P .. 'nxt', lane) or 0),
                             tonumber(call('ZSCORE', P .. 'st', lane) or 0), born_later(gap, jitter))
    rows[i] = {next_at, held_until(call('HGET', P .. 'hold', lane))}
  end
  return answer(rows)
end
-- ready:<pool>:<class>: lanes with their number of ready tasks, and the age of the oldest of each
local pool, class = match(part, '^ready:(%a+):(%d)$')
local lanes, rows, eldest = call('ZRANGE', P .. 'due:' .. pool .. ':' .. class, first, first + count - 1), {}, nil
for i, lane in ipairs(lanes) do
  local name = P .. 'r:' .. pool .. ':' .. lane
  rows[i] = {lane, call('ZCARD', name)}
  for at = 0, 2 do
    local head = call('ZRANGEBYSCORE', name, at * CLASS, '(' .. format('%.0f', (at + 1) * CLASS), 'WITHSCORES',
                      'LIMIT', 0, 1)
    local seq = head[2] and tonumber(head[2]) % CLASS
    if seq and (not eldest or seq < eldest[1]) then eldest = {seq, head[1]} end
  end
end
local since = false
if eldest then
  local text = call('HGET', P .. 't', eldest[2])
  since = text and tonumber((select(4, read_task(text))) or 0) or false
end
return answer({#lanes == count and first + count or false, rows, since})
