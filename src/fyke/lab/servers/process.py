"""One server process of ours on the loopback, in a folder of its own, that ends with us.

It can be killed, frozen and started again on the same port, which is what the tests of outages and `fyke lab
chaos` do with it. Nothing is left running, however this process ends.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from fyke.errors import UsageError
from fyke.lab.servers import guard

LOOPBACK: Final = "127.0.0.1"
# Below the range that outgoing connections take theirs from: a client that tries while the server is down would
# otherwise sit on its port, or connect to itself. The top leaves room for a cluster's bus, 10,000 above.
PORTS: Final = range(15_000, 22_000)
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
FIRST_STARTS: Final = 3
LOG_LINES: Final = 15


class StartFailed(UsageError):
    """The server did not answer; the text ends with the last lines of its log."""


class ServerProcess(ABC):
    """A server that listens on 127.0.0.1, on one port for its whole life. Blocking: call it from a thread.

    Use it in `with`, or call `start` and `stop`. Whatever is in `folder` outlives `stop` and `kill`.
    """

    name: str
    ending = signal.SIGTERM  # what asks it to end in good order

    def __init__(self, folder: Path | str, *, options: Mapping[str, str] | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.options = dict(options or {})
        self.log = self.folder / "server.log"
        self.port = 0
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def missing(cls) -> str:
        """Why it cannot be started on this machine; "" where it can."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The address that settings take."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that listens on `self.port`."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what the server needs in its folder, where that is not there yet."""

    @abstractmethod
    def answers(self, connection: socket.socket) -> bool:
        """Whether the server, asked on this new connection, takes commands."""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, on the port that it had before, and return once it answers.

        Raises:
            StartFailed: it is missing here, it ended, or it did not answer in time.
        """
        if self.running:
            return self
        reason = self.missing()
        if reason:
            raise StartFailed(reason)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        if self.port:
            return self._start()
        for left in range(FIRST_STARTS - 1, -1, -1):
            self.port = free_port()
            try:
                return self._start()
            except StartFailed:
                # Another process may have taken the port since we looked.
                if not left or not _is_taken(self.port):
                    raise
        return self

    def stop(self) -> None:
        """End it in good order; what does not end in time is killed."""
        if self.running:
            self.thaw()
            with suppress(ProcessLookupError):
                os.kill(self.pid, self.ending)
            with suppress(subprocess.TimeoutExpired):
                self._require().wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """SIGKILL, to it and to all its children."""
        if self._process is None:
            return
        if self.running:
            # The parent first, so that it starts no new children; it is stopped, so that it cannot end before them.
            signal_all(self._family(), signal.SIGSTOP)
            signal_all(reversed(self._family()), signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process, self.pid = None, 0

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is answered, until `thaw`."""
        signal_all(self._family(), signal.SIGSTOP)

    def thaw(self) -> None:
        signal_all(self._family(), signal.SIGCONT)

    def last_lines(self) -> str:
        with suppress(OSError):
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
        return ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> Self:
        with self.log.open("ab") as log:
            self._process, self.pid = start_guarded(self.command(), log_to=log.fileno(), folder=self.folder)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.running:
            with suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                if self.answers(connection):
                    return self
            time.sleep(0.02)
        ended = not self.running
        self.kill()
        why = "ended at once" if ended else f"did not answer within {START_SECONDS:.0f} s"
        raise StartFailed(f"{self.name} {why}; the end of {self.log}:\n{self.last_lines()}")

    def _require(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ValueError(f"{self.name} is not running")
        return self._process

    def _family(self) -> list[int]:
        return family(self.pid) if self.running else []


def start_guarded(
    command: list[str], *, log_to: int, folder: Path, variables: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a program that is killed when this process ends; its guard (wait for that one), and its own pid.

    The program has a session of its own, so that Ctrl-C at a terminal reaches us alone.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log_to,
        cwd=folder,
        env=None if variables is None else dict(variables),
        start_new_session=True,
    )
    assert process.stdout is not None  # it is a pipe
    return process, int(process.stdout.readline() or 0)


def family(pid: int) -> list[int]:
    """A process and its children's children; parents first."""
    found, parents = [pid], dict(_parents())
    for parent in found:
        found.extend(child for child, its in parents.items() if its == parent)
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def free_port() -> int:
    """A port of the loopback that nothing listens at, and that no outgoing connection will be given."""
    first = int.from_bytes(os.urandom(4), "big")
    for step in range(len(PORTS)):
        port = PORTS[(first + step) % len(PORTS)]
        if not _is_taken(port) and not _is_taken(port + 10_000):
            return port
    raise StartFailed(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


def wheel(package: str) -> Path | None:
    """The folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


def version_of(program: Path | str) -> str:
    """What the program prints for --version; "" where it does not run."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()
    return ""


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def _parents() -> Iterator[tuple[int, int]]:
    """(process, its parent) of all that run."""
    if Path("/proc/self/stat").exists():
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # "pid (name) state parent …"; the name may hold anything but the last bracket.
                yield int(path.parent.name), int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        return
    lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    for line in lines.splitlines():
        pid, parent = line.split()
        yield int(pid), int(parent)
