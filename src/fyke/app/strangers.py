"""Who answers at an address that speaks another protocol than ours: said at once, in place of "no answer"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from fyke.errors import UsageError

ANSWER_S: Final = 1.0
READ_BYTES: Final = 256
# What PostgreSQL is asked before anything else: whether it speaks TLS. Its answer is one letter.
ASK_TLS: Final = bytes((0, 0, 0, 8, 4, 210, 22, 47))
ASK: Final = b"PING\r\n\r\n"
NAMES: Final = {"redis": "Redis", "postgres": "PostgreSQL", "mysql": "MySQL or MariaDB", "http": "an HTTP server"}


async def refuse_stranger(wanted: str, places: Sequence[tuple[str, int]], field: str) -> None:
    """
    Raises:
        UsageError: one of the places answers, and not as a server of the wanted kind does.
    """
    for host, port in places:
        found = await who_answers(host, port)
        if found and found != wanted:
            raise UsageError(
                f"{NAMES[found]} answers at {host}:{port}, and {NAMES[wanted]} is expected there",
                field=field,
                hint="is it the right port?",
            )


async def who_answers(host: str, port: int) -> str:
    """A name of `NAMES`, or "" where nobody answers, or in no way that we know."""
    reply = await _asked(host, port, ASK)
    if reply.startswith(b"HTTP/"):
        return "http"
    if reply.startswith((b"+PONG", b"-NOAUTH", b"-ERR", b"-NOPERM", b"-DENIED", b"-LOADING", b"-MISCONF", b"-BUSY")):
        return "redis"
    # A greeting: its length in three bytes, number 0, protocol 10; or an error, such as too many connections.
    if len(reply) > 5 and reply[3] == 0 and reply[4] in (10, 255):
        return "mysql"
    if not reply and await _asked(host, port, ASK_TLS) in (b"S", b"N"):
        return "postgres"
    return ""


async def _asked(host: str, port: int, words: bytes) -> bytes:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(words)
                return await reader.read(READ_BYTES)
            finally:
                writer.close()
    return b""
