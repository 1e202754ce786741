"""The lock on Redis: SET NX PX with an owner and a fencing token, renewed and freed only by who holds it.

It stands outside the frontier's shards, so that a frontier that is made anew leaves it alone.
"""

from __future__ import annotations

import hashlib
from typing import Final, Self

from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.scripts import Script


def _script(name: str, text: str) -> Script:
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


# Not less than the time: tokens grow also over a server that has lost them. ARGV: owner, ms.
ACQUIRE: Final = _script(
    "acquire",
    """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local token = string.format('%.0f', math.max((tonumber(redis.call('GET', KEYS[1] .. ':token')) or 0) + 1, now))
if not redis.call('SET', KEYS[1], token .. ' ' .. ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
redis.call('SET', KEYS[1] .. ':token', token)
return token
""",
)
# ARGV: owner, token, ms.
RENEW: Final = _script(
    "renew",
    """
if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ' ' .. ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
""",
)
# ARGV: owner, token.
RELEASE: Final = _script(
    "release",
    """
if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ' ' .. ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""",
)


class RedisLock:
    """Implements `ports.Lock`."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection, self._namespace = connection, namespace

    @classmethod
    def at(cls, url: str, *, namespace: str) -> Self:
        """For a frontier's address; connects with the first call."""
        return cls(Connection(read_address(url)), namespace)

    async def acquire(self, name: str, owner: str, ms: int) -> int | None:
        token = await self._connection.run(ACQUIRE, self._key(name), owner, ms)
        return None if token is None else int(token)

    async def renew(self, name: str, owner: str, token: int, ms: int) -> bool:
        return bool(await self._connection.run(RENEW, self._key(name), owner, token, ms))

    async def release(self, name: str, owner: str, token: int) -> bool:
        return bool(await self._connection.run(RELEASE, self._key(name), owner, token))

    async def close(self) -> None:
        await self._connection.close()

    def _key(self, name: str) -> str:
        return f"{{fyke:{self._namespace}:lock}}:{name}"
