-- args: {key, generation, lane, pool, priority, source, starts}*, each key once -> {new, healed}
local keys = {}
for i, one in ipairs(args) do keys[i] = one[1] end
local texts, leased = call('HMGET', P .. 't', unpack(keys)), call('HMGET', P .. 'l', unpack(keys))
local found, rows = places(keys, texts, leased), {}
local new, healed = 0, 0
for i, one in ipairs(args) do
  local generation = generation_of(texts[i])
  local row
  if one[2] > generation then
    row = {one, false}
  elseif not found[i] then
    row = {one, texts[i]}
  elseif found[i] == 'hidden' then
    row = {one, texts[i]}
  end
  if row then
    row[3], row[4] = leased[i], texts[i]
    rows[#rows + 1] = row
    if not found[i] then new = new + 1 end
    if texts[i] and (not found[i] or found[i] == 'hidden') then healed = healed + 1 end
  end
end
if #rows == 0 then return answer({0, 0}) end
$TICK
local seq = call('HINCRBY', META, 'seq', #rows) - #rows
local sets, attempts = {}, {}
for i, row in ipairs(rows) do
  local one, again = row[1], row[2]
  local key = one[1]
  if row[3] then void(key, row[3]) end
  if row[4] and not again then
    local _, pool, _, _, _, lane = read_task(row[4])
    if lane then call('ZREM', P .. 'r:' .. pool .. ':' .. lane, key) else set_aside(key, row[4]) end
    call('ZREM', P .. 'delay', key)
    call('HDEL', P .. 'att', key)
  end
  if again then
    put_back(key, again)
  else
    local score = one[5] * CLASS + seq + i
    sets[#sets + 1], sets[#sets + 2] = key, write_task(score, one[4], one[2], one[6], one[3])
    enter(one[4], one[3], score, key)
    if one[7] > 0 then write_attempts(key, one[7], 0, '') end
  end
end
if #sets > 0 then call('HSET', P .. 't', unpack(sets)) end
show_entered()
return answer({new, healed})
