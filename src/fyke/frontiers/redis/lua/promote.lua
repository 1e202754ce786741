-- Delayed tasks that are due become ready, at their old place. (A part of lease.)
local function promote(limit)
  local keys = call('ZRANGEBYSCORE', P .. 'delay', '-inf', now, 'LIMIT', 0, limit)
  if #keys == 0 then return end
  local texts = call('HMGET', P .. 't', unpack(keys))
  local leased = call('HMGET', P .. 'l', unpack(keys))
  for i, key in ipairs(keys) do
    if texts[i] and not leased[i] then put_back(key, texts[i]) end
  end
  call('ZREM', P .. 'delay', unpack(keys))
end
