-- args: {key, generation, lane, pool, priority, source, starts}*, each key once -> {new, healed}
local keys = {}
for i, one in ipairs(args) do keys[i] = one[1] end
local texts, leased = call('HMGET', P .. 't', unpack(keys)), call('HMGET', P .. 'l', unpack(keys))

-- Those that are there are looked up in their places: the mark alone is not trusted.
local known, known_texts, known_leases, places_of = {}, {}, {}, {}
for i, key in ipairs(keys) do
  if texts[i] then
    local at = #known + 1
    known[at], known_texts[at], known_leases[at] = key, texts[i], leased[i]
  end
end
if #known > 0 then
  for at, place in ipairs(places(known, known_texts, known_leases)) do places_of[known[at]] = place end
end

local rows, number, new, healed = {}, 0, 0, 0
for i, one in ipairs(args) do
  local text, place = texts[i], places_of[one[1]]
  local newer = not text or one[2] > generation_of(text)
  if newer or not place or place == 'hidden' then
    number = number + 1
    -- What is there at this generation or a higher one only gets its place again.
    rows[number] = {one, not newer, leased[i], text}
    if not place then new = new + 1 end
    if text and (not place or place == 'hidden') then healed = healed + 1 end
  end
end
if number == 0 then return answer({0, 0}) end
$TICK
local seq, sets, size = call('HINCRBY', META, 'seq', number) - number, {}, 0
for i, row in ipairs(rows) do
  local one = row[1]
  local key, lane, pool = one[1], one[3], one[4]
  if row[3] then void(key, row[3]) end
  if row[2] then
    put_back(key, row[4])
  else
    if row[4] then
      local _, its_pool, _, _, _, its_lane = read_task(row[4])
      if its_lane then call('ZREM', P .. 'r:' .. its_pool .. ':' .. its_lane, key) else set_aside(key, row[4]) end
      call('ZREM', P .. 'delay', key)
      call('HDEL', P .. 'att', key)
    end
    local score = format('%.0f', one[5] * CLASS + seq + i)
    sets[size + 1], sets[size + 2], size = key, write_task(score, pool, one[2], one[6], lane), size + 2
    enter(pool, lane, score, key, one[5])
    if one[7] > 0 then write_attempts(key, one[7], 0, '') end
  end
end
if size > 0 then call('HSET', P .. 't', unpack(sets)) end
show_entered()
return answer({new, healed})
