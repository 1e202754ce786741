"""The clock of tests wakes who is due, in order, and nobody by a set wall clock."""

import asyncio

from fyke.testing.clock import FakeClock


async def test_sleepers_wake_when_their_time_has_come_and_not_before() -> None:
    clock, woken = FakeClock(1_000), []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.ensure_future(sleep(name, seconds)) for name, seconds in (("late", 2), ("soon", 0.5), ("now", 0))]
    await asyncio.sleep(0)
    assert clock.sleeping == 2
    assert clock.next_wake() == 0.5
    clock.set(99_000)
    await asyncio.sleep(0)
    assert woken == ["now"]
    clock.advance(499)
    await asyncio.sleep(0)
    assert woken == ["now"]
    clock.advance(1)
    await tasks[1]
    clock.advance(60_000)
    await asyncio.gather(*tasks)
    assert woken == ["now", "soon", "late"]
    assert (clock.now(), clock.monotonic(), clock.next_wake()) == (159_500, 60.5, None)
