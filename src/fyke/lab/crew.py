"""Processes that a comparison or a load test runs together: started, killed by a seed, started again, counted.

Each ends with us, however we end. Blocking calls are short; the loop that looks after them is the caller's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Final

from fyke.app.stores import DRIVERS
from fyke.errors import UsageError
from fyke.lab.servers.process import family, start_guarded

STOP_S: Final = 15.0
MOST_CRASHES: Final = 20
LOG_LINES: Final = 8


class Member:
    """One place in the crew: a command, and the process that runs it now. A place that ends with 0 stays empty."""

    def __init__(self, name: str, command: Sequence[str], *, leaves: bool = False) -> None:
        self.name = name
        self.command = [sys.executable, "-m", *command]
        self.leaves = leaves  # it ends by itself when its work is done
        self.done = False
        self.pid = 0
        self.guard: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self.guard is not None and self.guard.poll() is None


class Crew:
    """The members; `tend` is called a few times a second."""

    def __init__(
        self,
        folder: Path,
        members: Sequence[Member],
        variables: Mapping[str, str] | None = None,
        *,
        log_to: Path | None = None,
    ) -> None:
        self.folder, self.members = folder, list(members)
        self.log = (log_to or folder) / "crew.log"
        self.kills = self.crashes = 0
        own = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
        self._variables = {**own, **(variables or {})}

    def start(self) -> None:
        for member in self.members:
            self._start(member)

    def tend(self) -> None:
        """Start again what was killed or ended with an error, as an orchestrator does.

        Raises:
            UsageError: they end with an error again and again.
        """
        for member in self.members:
            if member.done or member.running or member.guard is None:
                continue
            code = member.guard.wait()
            _close(member.guard)
            if code == 0 and member.leaves:
                member.done = True
                continue
            if code not in (-signal.SIGKILL, 128 + signal.SIGKILL):
                self.crashes += 1
                if self.crashes > MOST_CRASHES:
                    raise UsageError(f"{member.name} ends with {code} again and again: {self.last_lines()}")
            self._start(member)

    def kill_one(self, random: Random) -> bool:
        """SIGKILL to one that runs, chosen by the seed."""
        running = [member for member in self.members if member.running]
        if not running:
            return False
        kill(random.choice(running).pid)
        self.kills += 1
        return True

    @property
    def pids(self) -> dict[str, int]:
        return {member.name: member.pid for member in self.members if member.running}

    def finished(self) -> bool:
        """Whether every member that leaves has left."""
        return all(member.done for member in self.members if member.leaves)

    def stop(self) -> None:
        """SIGTERM to all, SIGKILL to who does not end in time."""
        for member in self.members:
            if member.running:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGTERM)
        for member in self.members:
            if member.guard is None:
                continue
            try:
                member.guard.wait(STOP_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
                member.guard.wait()
            _close(member.guard)

    def last_lines(self) -> str:
        with suppress(OSError):
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
        return ""

    def _start(self, member: Member) -> None:
        with self.log.open("ab") as log:
            member.guard, member.pid = start_guarded(
                member.command, log_to=log.fileno(), folder=self.folder, variables=self._variables
            )
        if member.pid <= 0:
            # Signals to 0 would reach our own group.
            _close(member.guard)
            raise UsageError(f"{member.name} could not be started: {self.last_lines()}")


def kill(pid: int) -> None:
    """SIGKILL to a process and all its children at once, as a machine that loses its power."""
    # Stopped first, so that none hears of another's end; parents first, so that they start no new ones.
    for one in family(pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGSTOP)
    for one in reversed(family(pid)):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """User and system seconds of each process with its children so far; 0 where this system has no /proc."""
    tick, found = os.sysconf("SC_CLK_TCK"), dict[int, tuple[int, float]]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # "pid (name) state parent …"; the name may hold anything but the last bracket.
            parts = path.read_text(errors="replace").rpartition(")")[2].split()
            found[int(path.parent.name)] = (int(parts[1]), (int(parts[11]) + int(parts[12])) / tick)
    used = {}
    for name, pid in pids.items():
        own = [pid]
        for one in own:
            own.extend(child for child, (parent, _) in found.items() if parent == one)
        used[name] = round(sum(found[one][1] for one in own if one in found), 3)
    return used


def drivers_missing(*extras: str) -> str:
    """Why back ends of these extras (redis, postgres) cannot be used; "" where they can."""
    absent = [extra for extra in extras if any(find_spec(driver) is None for driver in DRIVERS[extra])]
    return f"the drivers are not installed: pip install 'fyke[{','.join(absent)}]'" if absent else ""


def run_to_end(command: Sequence[str], folder: Path) -> bytes:
    """Run one command of ours to its end; what it printed.

    Raises:
        UsageError: it failed; with the end of what it said.
    """
    found = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, check=False)
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(f"{' '.join(command[:1])} failed: {' / '.join(said[-3:])}")
    return found.stdout


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
