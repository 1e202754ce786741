"""Network namespaces as hosts on this machine: one for all servers, the others for those that use them.

They hang on a bridge that only they are on; nothing is routed elsewhere. The calling thread, and what it starts,
is on the servers' host while a network is open.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from fyke.lab.servers import MariaServer, PostgresServer

CLONE_NEWNET: Final = 0x40000000
NAMESPACES: Final = Path("/run/netns")
PREFIX: Final = "fyke-test-"
SUBNET: Final = "10.77.31.{}"
# One address each, so that a host can lose one server and keep the others.
REDIS, DATABASE, SITE = (SUBNET.format(number) for number in (1, 2, 3))
FIRST_HOST: Final = 11
# A machine that nobody is: what is sent there gets lost without a word.
NOBODY: Final = "02:00:00:00:00:01"


class Host:
    """A machine of the network, with a name of its own. `clock_off`: ms that its wall clock is ahead."""

    def __init__(self, name: str, namespace: str, port: str, switch: str, clock_off: int) -> None:
        self.name, self.clock_off = name, clock_off
        self._namespace, self._port, self._switch = namespace, port, switch

    @property
    def command(self) -> list[str]:
        """What goes before a command that is to run there."""
        named = ["unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self._namespace, *named]

    @property
    def environ(self) -> dict[str, str]:
        folder = Path(__file__).with_name("clock")
        return {"PYTHONPATH": str(folder), "HOST_CLOCK_OFF": str(self.clock_off)} if self.clock_off else {}

    def lose(self, *addresses: str) -> None:
        """From now on nothing that is sent to these addresses arrives; with none, the cable is pulled."""
        for address in addresses:
            run("ip", "-n", self._namespace, "neigh", "replace", address, *_to_nobody())
        if not addresses:
            run("ip", "-n", self._switch, "link", "set", self._port, "down")

    def find(self, *addresses: str) -> None:
        """All is as before `lose`."""
        for address in addresses:
            run("ip", "-n", self._namespace, "neigh", "del", address, "dev", "eth0")
        if not addresses:
            run("ip", "-n", self._switch, "link", "set", self._port, "up")


class Network:
    """The hosts; they are gone when it is closed. `missing()` says why there can be none here."""

    def __init__(self) -> None:
        self._own = f"{PREFIX}{os.getpid()}-"
        self._switch = f"{self._own}servers"
        self._hosts = 0
        self._stack = ExitStack()

    @staticmethod
    def missing() -> str:
        if not Path("/proc/self/ns/net").exists() or os.geteuid():
            return "network namespaces need Linux and root"
        absent = [name for name in ("ip", "unshare", "sh", "hostname") if not shutil.which(name)]
        if absent:
            return f"not on this machine: {', '.join(absent)} (packages iproute2, util-linux, hostname)"
        probe = f"{PREFIX}{os.getpid()}-probe"
        try:
            run("ip", "netns", "add", probe)
            run("ip", "-n", probe, "link", "add", "switch", "type", "bridge")
        except OSError as error:
            return f"this machine has no network namespaces with bridges: {error}"
        finally:
            _remove(probe)
        return ""

    def add(self, name: str, *, clock_off: int = 0) -> Host:
        namespace, port = f"{self._own}{name}", f"to-{name}"
        self._make(namespace)
        run("ip", "-n", self._switch, *("link", "add", port, "type", "veth"), *("peer", "eth0", "netns", namespace))
        run("ip", "-n", self._switch, *("link", "set", port, "master", "switch", "up"))
        run("ip", "-n", namespace, "addr", "add", f"{SUBNET.format(FIRST_HOST + self._hosts)}/24", "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")
        self._hosts += 1
        return Host(name, namespace, port, self._switch, clock_off)

    def __enter__(self) -> Self:
        with self._stack as stack:
            _remove_left()
            self._make(self._switch)
            run("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
            run("ip", "-n", self._switch, "link", "set", "switch", "up")
            for address in (REDIS, DATABASE, SITE):
                run("ip", "-n", self._switch, "addr", "add", f"{address}/24", "dev", "switch")
            home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            stack.callback(os.close, home)
            there = os.open(NAMESPACES / self._switch, os.O_RDONLY)
            stack.callback(os.close, there)
            _enter(there)
            stack.callback(_enter, home)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make(self, namespace: str) -> None:
        run("ip", "netns", "add", namespace)
        self._stack.callback(_remove, namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")


def let_hosts_in(server: PostgresServer | MariaServer) -> None:
    """The database's user may come from all hosts, not from the loopback alone."""
    if isinstance(server, MariaServer):
        server.execute(f"GRANT ALL ON *.* TO 'fyke'@'{SUBNET.format('%')}' IDENTIFIED BY ''")


def postgres_options(folder: Path) -> dict[str, str]:
    rules = folder / "pg_hba.conf"
    rules.write_text(f"host all all 127.0.0.1/32 trust\nhost all all {SUBNET.format(0)}/24 trust\n")
    return {"listen_addresses": "*", "hba_file": str(rules)}


def run(*words: str) -> None:
    """Raises OSError with what the command said."""
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    if found.returncode:
        raise OSError(f"{' '.join(words)}: {found.stderr.strip()}")


def _to_nobody() -> list[str]:
    return ["lladdr", NOBODY, "dev", "eth0", "nud", "permanent"]


def _enter(descriptor: int) -> None:
    # os.setns is of Python 3.12.
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _remove(namespace: str) -> None:
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def _remove_left() -> None:
    """What a test process that was killed has left."""
    for path in NAMESPACES.glob(f"{PREFIX}*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            _remove(path.name)
