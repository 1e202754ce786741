-- args: {key, generation}* -> number of tasks removed
local dropped = 0
for _, one in ipairs(args) do
  local key = one[1]
  local text = call('HGET', P .. 't', key)
  local _, pool, generation, _, _, lane = read_task(text or '')
  if generation and tonumber(generation) == one[2] then
    local lease = call('HGET', P .. 'l', key)
    if lease then void(key, lease) end
    call('ZREM', P .. 'r:' .. pool .. ':' .. lane, key)
    call('ZREM', P .. 'delay', key)
    call('HDEL', P .. 't', key)
    call('HDEL', P .. 'att', key)
    dropped = dropped + 1
  end
end
return answer(dropped)
