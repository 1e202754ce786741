"""Processes wait for servers that are not there yet: for a while, in few lines, and then say which one and why."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from fyke.app.waiting import CAP_S, Patience
from fyke.errors import TransientError, UsageError
from fyke.testing.clock import FakeClock


class Server:
    """Answers after so many tries."""

    def __init__(self, clock: FakeClock, tries: int) -> None:
        self.clock, self.left, self.asked = clock, tries, list[float]()

    async def __call__(self) -> str:
        self.asked.append(self.clock.monotonic())
        self.left -= 1
        if self.left >= 0:
            raise TransientError("connection refused")
        return "there"


async def reached(clock: FakeClock, patience: Patience, server: Server) -> str:
    """Time passes while it waits."""
    waiting = asyncio.create_task(patience.reach("redis://***@cache", server))
    while not waiting.done():
        await asyncio.sleep(0)
        if (wake := clock.next_wake()) is not None:
            clock.advance(max(1, round((wake - clock.monotonic()) * 1000)))
    return await waiting


async def test_it_backs_off_to_five_seconds_with_jitter_and_goes_on_when_the_server_comes() -> None:
    clock = FakeClock()
    server = Server(clock, 12)
    assert await reached(clock, Patience(90_000, clock, Random(1)), server) == "there"
    waits = [later - earlier for earlier, later in zip(server.asked, server.asked[1:], strict=False)]
    assert waits[0] < 0.3
    assert CAP_S / 2 <= min(waits[-3:]) < max(waits[-3:]) <= CAP_S
    assert len(set(waits[-3:])) == 3


async def test_after_its_time_it_names_the_server_and_the_reason() -> None:
    clock = FakeClock()
    with pytest.raises(TransientError) as error:
        await reached(clock, Patience(90_000, clock, Random(1)), Server(clock, 1_000))
    assert str(error.value) == "redis://***@cache cannot be used after 90 s (servers.wait): connection refused"
    assert 90 <= clock.monotonic() < 91


async def test_all_servers_of_a_process_together_have_this_time() -> None:
    clock = FakeClock()
    patience = Patience(30_000, clock, Random(1))
    await reached(clock, patience, Server(clock, 9))
    assert clock.monotonic() > 15
    with pytest.raises(TransientError):
        await reached(clock, patience, Server(clock, 1_000))
    assert clock.monotonic() < 31


async def test_one_line_is_logged_each_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    with caplog.at_level(logging.WARNING, logger="fyke"), pytest.raises(TransientError):
        await reached(clock, Patience(60_000, clock, Random(1)), Server(clock, 1_000))
    assert 5 <= len(caplog.records) <= 7


async def test_without_patience_it_is_asked_once_and_a_persons_mistake_is_never_waited_for() -> None:
    clock = FakeClock()
    server = Server(clock, 3)
    with pytest.raises(TransientError, match=r"^redis://.* cannot be used: connection refused$"):
        await reached(clock, Patience(0, clock, Random(1)), server)
    assert len(server.asked) == 1

    async def wrong() -> str:
        raise UsageError("wrong password")

    with pytest.raises(UsageError):
        await Patience(90_000, clock, Random(1)).reach("x", wrong)
