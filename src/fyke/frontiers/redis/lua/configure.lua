-- args: stamp, tighten, last, {lane, gap, jitter, limit}*. A lane is configured where its stamp is not older than the
-- last whole configuration, which takes several calls; the last one makes it count.
local stamp, tighten, last, rows = args[1], args[2], args[3], args[4]
local current = tonumber(call('HGET', META, 'configured') or 0)
if tighten then stamp = current end
local names = {}
for i, row in ipairs(rows) do names[i] = row[1] end
if #names > 0 then
  local known, sets = call('HMGET', P .. 'pol', unpack(names)), {}
  for i, row in ipairs(rows) do
    local lane, gap, jitter, limit = unpack(row, 1, 4)
    local its = tonumber(match(known[i] or '', ',(%d+)$') or -1)
    if tighten and its >= current then
      -- The longest gap, the longest shortest gap, the fewest at once.
      local old_gap, old_jitter, old_limit = policy(known[i])
      local longest = max(gap, old_gap)
      jitter = longest - max(gap - jitter, old_gap - old_jitter)
      gap, limit = longest, min(limit, old_limit)
    end
    local text = format('%.0f,%.0f,%.0f,%.0f', gap, jitter, limit, max(stamp, its))
    if text ~= known[i] then
      sets[#sets + 1], sets[#sets + 2] = lane, text
    end
  end
  if #sets > 0 then
    call('HSET', P .. 'pol', unpack(sets))
    for i = 1, #sets, 2 do show(sets[i]) end
  end
end
if last and not tighten then call('HSET', META, 'configured', max(current, stamp)) end
return answer(current)
