-- Where a task is: 'leased', 'delayed', 'ready', 'hidden' (ready in a lane that no lease would look at), or nothing.
local looked = {}
local function hidden(pool, lane)
  local name = pool .. lane
  if looked[name] == nil then
    looked[name] = true
    for class = 0, 2 do
      if call('ZSCORE', P .. 'due:' .. pool .. ':' .. class, lane) then looked[name] = false end
    end
  end
  return looked[name]
end

local function places(keys, texts, leased)
  local found = {}
  local ends, delayed = call('ZMSCORE', P .. 'ends', unpack(keys)), call('ZMSCORE', P .. 'delay', unpack(keys))
  for i, key in ipairs(keys) do
    found[i] = false
    if texts[i] then
      if leased[i] then
        found[i] = ends[i] and 'leased'
      elseif delayed[i] then
        found[i] = 'delayed'
      else
        local _, pool, _, _, _, lane = read_task(texts[i])
        if lane and call('ZSCORE', P .. 'r:' .. pool .. ':' .. lane, key) then
          found[i] = hidden(pool, lane) and 'hidden' or 'ready'
        end
      end
    end
  end
  return found
end
