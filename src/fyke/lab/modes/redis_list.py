"""A Redis set of known addresses and a list of tasks: as two commands, or as one Lua script; rows have no unique key.

The list is written with RPUSH and read with BRPOP, as the article does it: a task that was popped is nowhere else.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from redis.asyncio import Redis

from fyke.lab.modes.rows import count, insert, opened, prepare_plain
from fyke.lab.modes.stage import Place, Reader, Row, play

KNOWN: Final = "seen_urls"
TASKS: Final = "task_queue"
WAIT_S: Final = 5
ONCE: Final = """
if redis.call('SADD', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('RPUSH', KEYS[2], ARGV[2])
"""


def fingerprint(url: str) -> str:
    return hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()


async def prepare(place: Place, number: int) -> None:
    client: Redis = Redis.from_url(place.redis)
    await client.flushdb()
    await client.aclose()
    await prepare_plain(place, number)


async def produce_two_commands(place: Place, _: int) -> None:
    """A death between the two commands leaves an address that is known and nowhere to be done."""
    client: Any = Redis.from_url(place.redis)
    async with Reader(place) as reader:
        async for row in reader.rows():
            if await client.sadd(KNOWN, fingerprint(row.url)):
                await client.rpush(TASKS, msgspec.json.encode(row))
    await client.aclose()


async def produce_script(place: Place, _: int) -> None:
    client: Any = Redis.from_url(place.redis)
    once = client.register_script(ONCE)
    async with Reader(place) as reader:
        async for row in reader.rows():
            await once(keys=[KNOWN, TASKS], args=[fingerprint(row.url), msgspec.json.encode(row)])
    await client.aclose()


async def work(place: Place, _: int) -> None:
    """For ever: a process that dies takes the popped task with it."""
    client: Any = Redis.from_url(place.redis)
    async with opened(place) as connection, Reader(place) as reader:
        while True:
            popped = await client.brpop([TASKS], timeout=WAIT_S)
            if popped is not None:
                row = msgspec.json.decode(popped[1], type=Row)
                await insert(connection, row, await reader.detail(row))


if __name__ == "__main__":
    play(
        {
            "prepare": prepare,
            "produce": produce_two_commands,
            "produce_script": produce_script,
            "work": work,
            "count": count,
        }
    )
