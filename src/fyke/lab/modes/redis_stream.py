"""A Redis set, one Lua script, a Stream with a consumer group, and an idempotent row: the articles' end state.

As in the article: ten messages a read, one fixed consumer name, acknowledged after the commit, and pending messages of
a dead process never claimed, though its text says so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from fyke.lab.modes.rows import count, insert_once, opened, prepare_unique
from fyke.lab.modes.stage import Place, Reader, Row, play

KNOWN: Final = "govproc:seen"
STREAM: Final = "govproc:stream"
GROUP: Final = "gov-workers"
CONSUMER: Final = "worker-1"
READ_AT_ONCE: Final = 10
BLOCK_MS: Final = 5_000
ONCE: Final = """
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('SADD', KEYS[1], ARGV[1])
return redis.call('XADD', KEYS[2], '*', 'data', ARGV[2])
"""


async def prepare(place: Place, number: int) -> None:
    client: Redis = Redis.from_url(place.redis)
    await client.flushdb()
    await client.aclose()
    await prepare_unique(place, number)


async def produce(place: Place, _: int) -> None:
    client: Any = Redis.from_url(place.redis)
    once = client.register_script(ONCE)
    async with Reader(place) as reader:
        async for row in reader.rows():
            await once(keys=[KNOWN, STREAM], args=[row.key, msgspec.json.encode(row)])
    await client.aclose()


async def consume(place: Place, _: int) -> None:
    """For ever: new messages only, so that what a dead process had read stays pending."""
    client: Any = Redis.from_url(place.redis)
    with suppress(ResponseError):
        await client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    async with opened(place) as connection, Reader(place) as reader:
        while True:
            for _, messages in await client.xreadgroup(
                GROUP, CONSUMER, {STREAM: ">"}, count=READ_AT_ONCE, block=BLOCK_MS
            ):
                for message, fields in messages:
                    row = msgspec.json.decode(fields[b"data"], type=Row)
                    await insert_once(connection, row, await reader.detail(row))
                    await client.xack(STREAM, GROUP, message)


if __name__ == "__main__":
    play({"prepare": prepare, "produce": produce, "consume": consume, "count": count})
