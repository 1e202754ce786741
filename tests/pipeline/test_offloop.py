"""A large answer is read in a thread while the loop turns; one that never ends holds the loop, and is noticed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fyke.model import Response
from fyke.pipeline import offloop
from fyke.pipeline.offloop import LARGE, read_aside

LARGE_ONE = Response("https://site.example/", 200, {}, b"x" * LARGE, "")
SMALL_ONE = Response("https://site.example/", 200, {}, b"x" * (LARGE - 1), "")


async def test_the_loop_turns_while_a_large_answer_is_read() -> None:
    going = threading.Event()
    reading = asyncio.create_task(read_aside(LARGE_ONE, going.wait, 30))
    await asyncio.sleep(0)
    assert not reading.done()
    going.set()
    assert await reading


async def test_a_small_answer_is_read_where_it_is() -> None:
    assert await read_aside(SMALL_ONE, threading.get_ident) == threading.get_ident()
    assert await read_aside(LARGE_ONE, threading.get_ident) != threading.get_ident()


async def test_what_reading_raises_is_raised() -> None:
    def broken() -> None:
        raise TimeoutError("of a step")

    with pytest.raises(TimeoutError, match="of a step"):
        await read_aside(LARGE_ONE, broken)


async def test_what_does_not_end_holds_the_loop_where_the_process_s_own_watch_sees_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offloop, "ASIDE_S", 0.01)
    loop = asyncio.get_running_loop()

    def until_the_loop_is_held() -> bool:
        for _ in range(1_000):
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            if not turned.wait(0.5):
                return True
        return False

    assert await read_aside(LARGE_ONE, until_the_loop_is_held)
