"""Make an environment for each peer from its pins (requirements-NAME.txt), in a folder that git ignores.

Done again only when the pins have changed. `python bench/peers/install.py [NAME ...]`
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
NAMES = ("scrapy-redis", "crawlee", "feapder", "funboost")


def python_of(name: str) -> Path:
    return CACHE / name / "bin" / "python"


def install(name: str) -> str:
    """Bring one environment up to date; "" or why it could not be made."""
    pins = HERE / f"requirements-{name}.txt"
    stamp, wanted = CACHE / name / ".stamp", hashlib.sha256(pins.read_bytes()).hexdigest()
    if python_of(name).exists() and stamp.exists() and stamp.read_text() == wanted:
        return ""
    venv.create(CACHE / name, clear=True, symlinks=True, with_pip=True)
    command = [python_of(name), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--require-hashes"]
    found = subprocess.run([*command, "-r", pins], capture_output=True, text=True, check=False)
    if found.returncode:
        return (found.stderr.strip().splitlines() or ["pip failed"])[-1]
    stamp.write_text(wanted)
    return ""


def version(name: str, package: str = "") -> str:
    """The version of a package in a peer's environment."""
    ask = f"from importlib.metadata import version; print(version({package or name!r}))"
    return subprocess.run([python_of(name), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or NAMES:
        print(f"{name} ...", end=" ", flush=True)
        reason = install(name)
        print(reason or version(name))
        failed |= bool(reason)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
