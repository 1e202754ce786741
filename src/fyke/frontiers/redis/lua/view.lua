-- args: key -> false, or what is known of the task
local key = args[1]
local text = call('HGET', P .. 't', key)
local score, pool, generation, _, hash, lane = read_task(text or '')
if not lane then return answer(false) end
local starts, _, reason = read_attempts(call('HGET', P .. 'att', key))
local lease, state, at, worker = call('HGET', P .. 'l', key), 'ready', false, ''
local due = call('ZSCORE', P .. 'delay', key)
if lease then
  state, worker, at = 'leased', read_lease(lease).worker, tonumber(call('ZSCORE', P .. 'ends', key) or 0)
elseif due then
  state, at = 'delayed', tonumber(due)
end
local gap, jitter = policy(call('HGET', P .. 'pol', lane))
local next_at = max(tonumber(call('ZSCORE', P .. 'nxt', lane) or 0), tonumber(call('ZSCORE', P .. 'st', lane) or 0))
local till = held_until(call('HGET', P .. 'hold', lane))
return answer({tonumber(generation), lane, pool, floor(score / CLASS), hash, starts, state, at, worker, reason,
               max(next_at, born_later(gap, jitter)), till})
