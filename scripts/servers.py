"""Install the servers that the tests start, where this is a Debian and we are root; else say what is missing.

Nothing is started as a service of the system: the tests run servers of their own, in folders of their own.
Always ends with 0: tests whose server is missing are skipped at home, and fail in CI.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What an installation that failed was asked for: it is not tried again at each call.
TRIED = ROOT / ".venv" / ".servers"
# Told by Debian's packages before they start a service; 101 is no.
POLICY = Path("/usr/sbin/policy-rc.d")
# A package of Debian, and what it brings.
PACKAGES = {
    "redis-server": ("redis-server",),
    "mariadb-server": ("mariadbd", "mariadb-install-db", "mariadb"),
    "postgresql": ("/usr/lib/postgresql/*/bin/postgres",),
    "iproute2": ("ip",),
    "util-linux": ("setpriv",),
}
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"))


def main() -> int:
    missing = absent()
    if not missing:
        return 0
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = absent()
        if missing and not os.geteuid() and shutil.which("apt-get") and not tried(missing):
            print(f"Installing what the tests start: {', '.join(missing)} ...", flush=True)
            TRIED.write_text(" ".join(missing))
            install(missing)
            missing = absent()
            if not missing:
                TRIED.unlink()
    if missing:
        print(
            f"Not on this machine: {', '.join(missing)}; the tests that start them are skipped (in CI they fail).\n"
            f"On Debian and Ubuntu: sudo apt-get install {' '.join(missing)}",
            file=sys.stderr,
        )
    return 0


def absent() -> list[str]:
    """The packages of which something is missing."""
    return [package for package, programs in PACKAGES.items() if not all(map(is_there, programs))]


def is_there(program: str) -> bool:
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return shutil.which(program, path=PATH) is not None


def tried(missing: list[str]) -> bool:
    return TRIED.exists() and TRIED.read_text() == " ".join(missing)


def install(packages: list[str]) -> None:
    """apt-get, without a question and without a service started; its own words where it fails."""
    settings = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "LC_ALL": "C.UTF-8"}
    commands = (["update"], ["install", "--yes", "--no-install-recommends", *packages])
    with no_services():
        for words in commands:
            found = subprocess.run(
                ["apt-get", "-qq", *words],
                env={**os.environ, **settings},
                capture_output=True,
                text=True,
                check=False,
            )
            if found.returncode:
                print(f"apt-get {words[0]} failed:\n{(found.stderr or found.stdout)[-2000:]}", file=sys.stderr)


@contextmanager
def no_services() -> Iterator[None]:
    if POLICY.exists():  # the machine has its own
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


if __name__ == "__main__":
    sys.exit(main())
