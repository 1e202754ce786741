-- args: length, {key, token}* -> {kept*}, {member of a permit in another shard}*
local length, asked = args[1], args[2]
local found, members, kept, ends, claims, changed = owned(asked), {}, {}, {}, {}, {}
for i, one in ipairs(asked) do members[i] = one[1] .. '|' .. one[2] end
local places = call('EXISTS', P .. 'per') == 1 and call('HMGET', P .. 'per', unpack(members)) or {}
for i, one in ipairs(asked) do
  local lease = found[i]
  kept[i] = lease and true
  if lease then
    ends[#ends + 1], ends[#ends + 2] = now + length, one[1]
    call('ZADD', P .. 'slots:' .. lease.lane, now + length, members[i])
    if lease.length ~= length then
      lease.length = length
      changed[#changed + 1], changed[#changed + 2] = one[1], write_lease(lease)
    end
    local name = lease.pool .. '\n' .. lease.worker
    claims[name] = claims[name] or {lease.pool, lease.worker, {}}
    table.insert(claims[name][3], lease.entry)
    if places[i] then
      for lane in string.gmatch(places[i], '\n([^\n]+)') do
        if string.sub(lane, 1, 1) == '>' then
          foreign[#foreign + 1] = {members[i], string.sub(lane, 2)}
        else
          call('ZADD', P .. 'slots:' .. lane, now + length, members[i])
        end
      end
      call('HSET', P .. 'per', members[i], (string.gsub(places[i], '^%d+', format('%.0f', length))))
      call('ZADD', P .. 'pe', now + length, members[i])
    end
  end
end
if #ends > 0 then call('ZADD', P .. 'ends', unpack(ends)) end
if #changed > 0 then call('HSET', P .. 'l', unpack(changed)) end
-- Shown by XPENDING; without the group the lease is renewed all the same.
for _, one in pairs(claims) do
  local ids = one[3]
  ids[#ids + 1] = 'JUSTID'
  redis.pcall('XCLAIM', P .. 's:' .. one[1], 'w', one[2], 0, unpack(ids))
end
return answer({kept, foreign})
