"""The processes that collect while the faults go on: schedulers and workers, started again when they end.

They are what a user types, `fyke scheduler` and `fyke worker`, kept by what an orchestrator does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from fyke.lab.servers.process import family, signal_all, start_guarded

RESTART_S: Final = 0.5
LOOK_S: Final = 0.1


class Player:
    """A place for one process: a role and a number. `told`: its next end was our doing."""

    def __init__(self, role: str, number: int, folder: Path, variables: Mapping[str, str]) -> None:
        self.role, self.name = role, f"{role}-{number}"
        self.told = False
        self.frozen = False
        self.pid = 0
        self.log = folder / f"{self.name}.log"
        self._folder, self._variables = folder, variables
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        command = [sys.executable, "-m", "fyke", self.role]
        with self.log.open("ab") as log:
            self._guard, self.pid = start_guarded(
                command, log_to=log.fileno(), folder=self._folder, variables=self._variables
            )
        self.told = self.frozen = False

    def pids(self) -> list[int]:
        return family(self.pid) if self.running else []

    def kill(self) -> None:
        """SIGKILL to all that belongs to it."""
        self.told = True
        signal_all(reversed(self.pids()), signal.SIGKILL)

    def kill_one(self, random: Random) -> str:
        """SIGKILL to one process of its family; which one: most often the last, which does the work."""
        pids = self.pids()
        if not pids:
            return f"{self.name} (was not running)"
        pid = pids[-1] if len(pids) > 1 and random.random() < 0.7 else pids[0]
        self.told = self.told or pid == self.pid
        signal_all([pid], signal.SIGKILL)
        return f"{self.name} pid {pid}" + ("" if pid == self.pid else ", a child")

    def freeze(self) -> None:
        self.frozen = True
        signal_all(self.pids(), signal.SIGSTOP)

    def thaw(self) -> None:
        self.frozen = False
        signal_all(self.pids(), signal.SIGCONT)

    def term(self) -> None:
        """SIGTERM to the process that a person would name."""
        self.told = True
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Raises subprocess.TimeoutExpired."""
        if self._guard is not None:
            self._guard.wait(seconds)

    def ended(self) -> int | None:
        """The exit code of a process that has ended since it was asked last."""
        if self._guard is None or self._guard.poll() is None:
            return None
        code = self._guard.wait()
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        self._guard = None
        return code


class Players:
    """All of them. `keep` starts again what has ended, until it is cancelled."""

    def __init__(self, players: Sequence[Player], tell: Callable[[str, int], None]) -> None:
        self.all = list(players)
        self._tell = tell

    def start(self) -> None:
        for player in self.all:
            player.start()

    def of(self, role: str = "") -> list[Player]:
        return [player for player in self.all if role in {"", player.role}]

    async def keep(self) -> None:
        """`tell` hears the name and the exit code of what ended though we did nothing to it."""
        resting: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        while True:
            for player in self.all:
                told = player.told
                code = player.ended()
                if code is not None:
                    resting[player.name] = loop.time() + RESTART_S
                    if not told:
                        self._tell(player.name, code)
                if player.name in resting and loop.time() >= resting[player.name]:
                    del resting[player.name]
                    player.start()
            await asyncio.sleep(LOOK_S)

    async def stop(self, seconds: float) -> list[str]:
        """End them in good order; the names of those that had to be killed."""
        for player in self.all:
            player.thaw()
            player.term()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while any(player.running for player in self.all) and loop.time() < end:  # noqa: ASYNC110 - they are processes
            await asyncio.sleep(LOOK_S)
        late = [player.name for player in self.all if player.running]
        self.kill()
        return late

    def kill(self) -> None:
        """At once, and whatever is going on."""
        for player in self.all:
            player.kill()
        for player in self.all:
            while player.running:
                # Another child may have come between the look and the signal.
                signal_all(reversed(player.pids()), signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):
                    player.wait(0.2)
            player.ended()
