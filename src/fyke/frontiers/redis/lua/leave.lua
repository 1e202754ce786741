-- args: {member, left}* -> nothing. Permits of tasks of other shards: renewed for `left` ms, or ended (0).
for _, one in ipairs(args) do
  local text = call('HGET', P .. 'per', one[1])
  if text and one[2] > 0 then
    for lane in string.gmatch(text, '\n([^\n]+)') do call('ZADD', P .. 'slots:' .. lane, 'XX', now + one[2], one[1]) end
    call('ZADD', P .. 'pe', now + one[2], one[1])
  elseif text then
    end_places(one[1], text)
  end
end
unpark_freed()
return answer(true)
