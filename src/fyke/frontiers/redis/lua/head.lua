-- Every script of the frontier: KEYS[1] is the shard's meta key, all other keys are computed from it (one slot).
-- ARGV: the epoch that the caller knows, the server time that it expects (ms, 0: any), its arguments (msgpack).
local META = KEYS[1]
local P = string.sub(META, 1, -5)
local call, match, format, floor, max, min = redis.call, string.match, string.format, math.floor, math.max, math.min
local meta = call('HMGET', META, 'epoch', 'high', 'born', 'mark', 'tick')
local now = $NOW
local high, born, tick = tonumber(meta[2]) or 0, tonumber(meta[3]) or 0, tonumber(meta[5]) or 0
local function answer(result) return cmsgpack.pack({now, tick, meta[4] or '', result}) end
