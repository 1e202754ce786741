-- args: limit, still -> {key, generation, lane, pool, class, source, starts, begun, worker}*
-- Tasks whose lease ran out go back to their old place.
local out = {}
if args[2] then return answer(out) end
-- What ends later than now + twice its length was granted by a clock that was ahead.
local late = call('ZREVRANGEBYSCORE', P .. 'ends', '+inf', '(' .. format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, 100)
for i = 1, #late, 2 do
  local text = call('HGET', P .. 'l', late[i])
  local lease = text and read_lease(text)
  if lease and tonumber(late[i + 1]) > now + 2 * lease.length then
    call('ZADD', P .. 'ends', now + lease.length, late[i])
    call('ZADD', P .. 'slots:' .. lease.lane, now + lease.length, late[i] .. '|' .. lease.token)
  end
end
drop_places()
for _, key in ipairs(call('ZRANGEBYSCORE', P .. 'ends', '-inf', now, 'LIMIT', 0, args[1])) do
  local text, task = call('HGET', P .. 'l', key), call('HGET', P .. 't', key)
  if not text then
    call('ZREM', P .. 'ends', key)
  else
    local lease = read_lease(text)
    end_leases({{key, lease.token}})
    local score, pool, generation, _, hash, lane = read_task(task or '')
    if lane then
      local starts, delay = read_attempts(call('HGET', P .. 'att', key))
      write_attempts(key, starts, delay, 'lease ran out')
      put_back(key, task)
      out[#out + 1] = {key, tonumber(generation), lane, pool, floor(score / CLASS), hash, starts, lease.begun > 0,
                       lease.worker}
    end
  end
end
-- Entries that the group has not handed over: it was made again by somebody.
for _, pool in ipairs(POOLS) do
  for _, entry in ipairs(read_group(pool, 'reaper', 100)) do settle_stray(pool, entry[1], entry[2][2]) end
end
show_entered()
unpark_freed()
return answer(out)
