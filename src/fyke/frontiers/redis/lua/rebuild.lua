-- args: epoch, part, mark, shards, key* -> 'mine' (nothing to do), 'empty' (delete what is there), 'made'
local epoch, part, mark, shards, keys = args[1], args[2], args[3], args[4], args[5]
if meta[1] == epoch then return answer('mine') end
if part == 'empty' then
  -- From here on nobody works with what is there.
  call('HDEL', META, 'epoch')
elseif part == 'delete' then
  if #keys > 0 then call('UNLINK', unpack(keys)) end
else
  tick = tick + 1
  meta[4] = mark
  call('HSET', META, 'mark', mark, 'shards', shards, 'schema', $SCHEMA, 'born', now, 'tick', tick, 'high', now)
  call('HDEL', META, 'seq', 'last', 'acked', 'buried')
  for _, pool in ipairs({'text', 'render'}) do
    call('DEL', P .. 's:' .. pool)
    call('XGROUP', 'CREATE', P .. 's:' .. pool, 'w', '0', 'MKSTREAM')
  end
  call('HSET', META, 'epoch', epoch)
  return answer('made')
end
return answer('empty')
