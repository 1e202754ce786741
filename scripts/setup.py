"""Make `.venv` from the pinned requirements; do nothing when it is up to date.

Runs on a bare Python 3.11+ with pip, and asks whatever index the machine's own pip settings name.
A second call at the same time waits for the first. An installation that was broken off is thrown
away and made again, for half a package looks installed to pip.
"""

import fcntl
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".stamp"
INSTALLING = VENV / ".installing"
PINS = "requirements/dev.txt"
OLDEST = (3, 11)


def main() -> int:
    """Bring `.venv` up to date; 0 when it is, else pip's or venv's own exit code."""
    if sys.version_info < OLDEST:
        print(f"Fyke needs Python 3.11 or newer; this is {sys.version.split()[0]}.", file=sys.stderr)
        return 2
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = f"{VENV}\n{fingerprint()}\n"
        if PYTHON.exists() and STAMP.exists() and STAMP.read_text() == wanted:
            return 0
        print("Setting up .venv (a minute or so the first time) ...", flush=True)
        if not usable():
            create()
        failed = install()
        if not failed:
            STAMP.write_text(wanted)
        return failed


def fingerprint() -> str:
    """What the environment depends on: its pins, the package's own definition, and this script."""
    digest = hashlib.sha256()
    for name in (PINS, "pyproject.toml", "scripts/setup.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def usable() -> bool:
    """Whether what is there is a working environment, made here, that no installation left half made."""
    if not PYTHON.exists() or INSTALLING.exists():
        return False
    # The commands of a copied or moved environment still run the Python of the place that it came from.
    if STAMP.exists() and STAMP.read_text().partition("\n")[0] != str(VENV):
        return False
    ask = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    try:
        subprocess.run([PYTHON, "-c", ask], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def create() -> None:
    """Make an empty environment in place of whatever is there."""
    try:
        import ensurepip  # noqa: F401  (absent where a system keeps it in a package of its own)
    except ImportError:
        with_pip = False
    else:
        with_pip = True
    venv.create(VENV, clear=True, symlinks=True, with_pip=with_pip)


def install() -> int:
    """Install the pins, then the package itself, editable; the exit code of what failed, else 0."""
    has_pip = subprocess.run([PYTHON, "-c", "import pip"], capture_output=True, check=False).returncode == 0
    pip = [str(PYTHON), "-m", "pip"] if has_pip else [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    pip += ["install", "-qq", "--disable-pip-version-check"]
    INSTALLING.touch()
    code = (
        subprocess.run([*pip, "--require-hashes", "-r", PINS], cwd=ROOT, check=False).returncode
        or subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], cwd=ROOT, check=False).returncode
    )
    # pip that ends by itself has tidied up; one that was killed leaves the mark.
    if code >= 0:
        INSTALLING.unlink()
    return abs(code)


if __name__ == "__main__":
    sys.exit(main())
