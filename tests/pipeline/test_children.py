"""Processes end when they are told to, and by themselves when a source's code never returns (CRASH-WINDOWS 36)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from fyke.app import SystemClock
from fyke.pipeline import children
from fyke.pipeline.children import Child

HEARS = "import sys; sys.stdin.read()"
"""As a worker: it ends when its standard input closes."""
DEAF = "import time; time.sleep(60)"
SOON_S = 10


class Making:
    """Holds back the `nth` process that is made, once it is there."""

    def __init__(self, nth: int) -> None:
        self._nth, self._make = nth, asyncio.create_subprocess_exec
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, *command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await self._make(*command, **options)
        self._nth -= 1
        if self._nth == 0:
            self.reached.set()
            await self.go.wait()
        return process


async def stopped_while_made(monkeypatch: pytest.MonkeyPatch, code: str, nth: int, grace_s: float) -> Child:
    """A child that is told to stop while its `nth` process is being made, and has ended."""
    making = Making(nth)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", making)
    monkeypatch.setattr(children, "FIRST_BACKOFF_S", 0.01)
    child = Child(0, [sys.executable, "-c", code], SystemClock(), nothing)
    running = asyncio.create_task(child.run())
    if nth > 1:
        while child.pid is None:  # noqa: ASYNC110 - the first process is made in its own time
            await asyncio.sleep(0.001)
        child.kill()
    await making.reached.wait()
    await child.stop(grace_s)
    making.go.set()
    try:
        await asyncio.wait_for(running, SOON_S)
    finally:
        child.kill()
    return child


async def nothing(index: int, code: int) -> None:
    return None


@pytest.mark.parametrize("nth", [1, 2], ids=["the first", "one after a death"])
async def test_a_process_that_is_being_made_at_the_stop_is_told(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    child = await stopped_while_made(monkeypatch, HEARS, nth, grace_s=SOON_S)
    assert child.restarts == nth - 1


async def test_a_process_that_is_being_made_at_the_stop_and_does_not_hear_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await stopped_while_made(monkeypatch, DEAF, 1, grace_s=0.05)


PROGRAM = """
import asyncio, re, time
from fyke.app import run
run.HANGS_AFTER_S = {after}
async def main():
    async with run.not_hanging():
        {inside}
    time.sleep({outside})
asyncio.run(main())
"""


def ended(inside: str, *, after: float = 0.5, outside: float = 0) -> tuple[int, str]:
    program = PROGRAM.format(after=after, inside=inside, outside=outside)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * SOON_S, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("blocks", "where"),
    [("time.sleep(60)", "in main"), ("re.match('(a+)+$', 'a' * 40 + 'b')", "re/__init__.py")],
    ids=["a call", "a regular expression without end"],
)
def test_a_process_whose_loop_hangs_ends_and_says_where(blocks: str, where: str) -> None:
    """Before it a turn of the loop, as a worker has."""
    code, said = ended(f"await asyncio.sleep(0); {blocks}")
    assert code == 1
    assert "Timeout" in said
    assert where in said


def test_a_process_whose_loop_turns_and_what_comes_after_it_are_left_alone() -> None:
    assert ended("await asyncio.sleep(1.3)", after=1, outside=1.1) == (0, "")
