"""The Lua of the known filter. Each call is one script, in one hash slot, on marks of one space.

KEYS[1] counts the marks of a ledger by month; the rest is named after it. ARGV: months (newest first), seconds to keep.
"""

from __future__ import annotations

import hashlib
from typing import Final

from fyke.frontiers.redis.scripts import Script

_HEAD: Final = """
local months = {}
for month in string.gmatch(ARGV[1], '%S+') do months[#months + 1] = month end
local added = 0
local function count()
  if added == 0 then return tonumber(redis.call('HGET', KEYS[1], months[1])) or 0 end
  local total = redis.call('HINCRBY', KEYS[1], months[1], added)
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  return total
end
"""

# ARGV[3]: the space. Each bucket holds, besides marks and voids, what names the space and this life of the server: a
# bucket of another space is empty, and so is all that is left after a restart or a fail-over, for it may lack what was
# told last. A void is in each bucket that its mark may be in.
_EXACT: Final = (
    _HEAD
    + """
local life = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
local tag = string.format('%.0f', tonumber(string.sub(redis.sha1hex(life .. ARGV[3]), 1, 13), 16))
local function named(month, bucket) return KEYS[1] .. ':' .. month .. ':' .. bucket end
local function claim(month, bucket)
  local key = named(month, bucket)
  if redis.call('SISMEMBER', key, tag) == 1 then return key end
  if month == months[1] then added = added - math.max(0, redis.call('SCARD', key) - 1) end
  redis.call('DEL', key)
  redis.call('SADD', key, tag)
  redis.call('EXPIRE', key, ARGV[2])
  return key
end
local function remember(bucket, mark, void)
  local key = claim(months[1], bucket)
  if redis.call('SISMEMBER', key, void) == 0 then added = added + redis.call('SADD', key, mark) end
end
"""
)
# ARGV[4]: bucket:mark:void of each, joined by blanks: one text costs the client less than many. A mark that is found in
# an older month is remembered in this one again.
_EXACT_HITS: Final = """
local found = {}
for bucket, mark, void in string.gmatch(ARGV[4], '(%d+):(%-?%d+):(%-?%d+)') do
  local hit = 0
  for n, month in ipairs(months) do
    local is = redis.call('SMISMEMBER', named(month, bucket), tag, mark, void)
    if is[1] == 1 and is[3] == 1 then
      hit = 0
      break
    end
    if is[1] == 1 and is[2] == 1 and hit == 0 then hit = n end
  end
  if hit > 1 then remember(bucket, mark, void) end
  found[#found + 1] = hit
end
count()
return found
"""
_EXACT_ADD: Final = """
for bucket, mark, void in string.gmatch(ARGV[4], '(%d+):(%-?%d+):(%-?%d+)') do remember(bucket, mark, void) end
return count()
"""
# ARGV[4]: how many of the months are voided in any case (another machine's clock may be in one of them still, or
# already); in older ones, what is there. ARGV[5]: bucket:void of each.
_EXACT_VOID: Final = """
for bucket, void in string.gmatch(ARGV[5], '(%d+):(%-?%d+)') do
  for n, month in ipairs(months) do
    if n <= tonumber(ARGV[4]) or redis.call('EXISTS', named(month, bucket)) == 1 then
      redis.call('SADD', claim(month, bucket), void)
    end
  end
end
return count()
"""
# ARGV[3]: a mark is chunk:bit of each of its bits, joined by blanks; marks are joined by commas. ARGV[4]: the last
# bit of a chunk.
_BLOOM_HITS: Final = """
local found = {}
for mark in string.gmatch(ARGV[3], '[^,]+') do
  local hit = 0
  for n, month in ipairs(months) do
    local all = true
    for chunk, bit in string.gmatch(mark, '(%d+):(%d+)') do
      if redis.call('GETBIT', KEYS[1] .. ':' .. month .. ':' .. chunk, bit) == 0 then
        all = false
        break
      end
    end
    if all then
      hit = n
      break
    end
  end
  found[#found + 1] = hit
end
return found
"""
_BLOOM_ADD: Final = """
for mark in string.gmatch(ARGV[3], '[^,]+') do
  local new = 0
  for chunk, bit in string.gmatch(mark, '(%d+):(%d+)') do
    local key = KEYS[1] .. ':' .. months[1] .. ':' .. chunk
    if redis.call('EXISTS', key) == 0 then
      -- Made in its full size: a text that grows gets twice the room.
      redis.call('SETBIT', key, ARGV[4], 0)
      redis.call('EXPIRE', key, ARGV[2])
    end
    if redis.call('SETBIT', key, bit, 1) == 0 then new = 1 end
  end
  added = added + new
end
return count()
"""


def _script(name: str, text: str) -> Script:
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


EXACT_HITS: Final = _script("known_exact_hits", _EXACT + _EXACT_HITS)
EXACT_ADD: Final = _script("known_exact_add", _EXACT + _EXACT_ADD)
EXACT_VOID: Final = _script("known_exact_void", _EXACT + _EXACT_VOID)
BLOOM_HITS: Final = _script("known_bloom_hits", _HEAD + _BLOOM_HITS)
BLOOM_ADD: Final = _script("known_bloom_add", _HEAD + _BLOOM_ADD)
