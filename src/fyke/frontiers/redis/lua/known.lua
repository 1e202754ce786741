-- args: key* -> {generation or false}: a task without a place is not live
local texts, leased = call('HMGET', P .. 't', unpack(args)), call('HMGET', P .. 'l', unpack(args))
local found, generations = places(args, texts, leased), {}
for i in ipairs(args) do
  local live = found[i] and found[i] ~= 'hidden'
  generations[i] = live and generation_of(texts[i])
end
return answer(generations)
