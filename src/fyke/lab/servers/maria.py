"""Throw-away MariaDB, whose server says latin1 on purpose: our code must name utf8mb4 itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fyke.lab.servers.process import LOOPBACK, ServerProcess, StartFailed, version_of
from fyke.lab.servers.template import make_data

__all__ = ["MariaServer"]

USER: Final = "fyke"
DATABASE: Final = "fyke"
DEFAULTS: Final = {
    "character-set-server": "latin1",
    "collation-server": "latin1_swedish_ci",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "innodb-use-native-aio": "0",
    "performance-schema": "0",
    "skip-log-bin": "",
    "skip-name-resolve": "",
    "max-connections": "200",
}
# Written at each commit and flushed once a second: safe against a kill of the server, not against a loss of power.
UNSAFE: Final = {"innodb-flush-log-at-trx-commit": "2"}
SMALL_LOG: Final = "--innodb-log-file-size=32M"


class MariaServer(ServerProcess):
    """One server; user and database `fyke`. `options` are flags of mariadbd without their dashes.

    Args:
        templates: a folder that the empty data folder is made in once and copied from; servers may share it.
        fsync: whether a commit reaches the disk.
        password: of the user `fyke`.
    """

    name = "MariaDB"

    def __init__(
        self,
        folder: Path | str,
        options: Mapping[str, str] | None = None,
        *,
        templates: Path | None = None,
        fsync: bool = False,
        password: str = "",
    ) -> None:
        super().__init__(folder, options={**DEFAULTS, **({} if fsync else UNSAFE), **(options or {})})
        self._templates, self._password = templates, password
        self._data = self.folder / "data"
        self._users = self.folder / "users.sql"
        self._temporary = self.folder / "tmp"

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be started here; "" where it can."""
        absent = [name for name in ("mariadbd", "mariadb-install-db", "mariadb") if not _find(name)]
        if absent:
            return f"MariaDB is not on this machine: no {', '.join(absent)} (install the package mariadb-server)"
        return "" if "MariaDB" in version_of(_find("mariadbd")) else "mariadbd does not run on this machine"

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        password = f":{quote(self._password, safe='')}" if self._password else ""
        return f"mysql://{USER}{password}@{LOOPBACK}:{self.port}/{database}"

    def prepare(self) -> None:
        # Each server has its own: one that starts removes what others keep in /tmp.
        self._temporary.mkdir(parents=True, exist_ok=True)
        if not (self._data / "mysql").exists():
            make_data(self._data, _install, "mariadb", self._templates)
        grant = f"'{USER}'@'{LOOPBACK}' IDENTIFIED BY '{_quoted(self._password)}'"
        lines = (f"CREATE DATABASE IF NOT EXISTS {DATABASE};", f"GRANT ALL ON *.* TO {grant} WITH GRANT OPTION;")
        self._users.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        flags = [f"--{key}={value}" if value else f"--{key}" for key, value in self.options.items()]
        # A socket inside the data folder: its own name is short, the folder's need not be.
        places = [f"--datadir={self._data}", "--socket=server.sock", "--pid-file=server.pid"]
        places.append(f"--tmpdir={self._temporary}")
        listen = [f"--bind-address={LOOPBACK}", f"--port={self.port}", f"--init-file={self._users}"]
        return [_find("mariadbd"), "--no-defaults", *_as_root(), *places, *listen, *flags]

    def answers(self, connection: socket.socket) -> bool:
        # The server greets first: length and number of the packet, then the version of its protocol.
        greeting = connection.recv(5)
        return len(greeting) == 5 and greeting[4] == 10

    def execute(self, statement: str, database: str = "") -> str:
        """Run statements with the client; its rows, one a line, columns parted by tabs."""
        found = subprocess.run(
            [
                *(_find("mariadb"), "--no-defaults", "--batch", "--skip-column-names", "--protocol=tcp"),
                *(f"--host={LOOPBACK}", f"--port={self.port}", f"--user={USER}", f"--execute={statement}"),
                *([database] if database else []),
            ],
            env={**os.environ, "MYSQL_PWD": self._password},
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            raise ValueError(found.stderr.strip())
        return found.stdout.strip()

    def create_database(self, name: str) -> str:
        """Make an empty database, in the server's own character set; its address."""
        self.execute(f"CREATE DATABASE `{name}`")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")


def _install(data: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    temporary = data.with_name(f"{data.name}-tmp")
    temporary.mkdir(exist_ok=True)
    flags = ["--no-defaults", *_as_root(), f"--datadir={data}", "--auth-root-authentication-method=normal"]
    command = [_find("mariadb-install-db"), *flags, "--skip-test-db", SMALL_LOG, f"--tmpdir={temporary}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=data)
    shutil.rmtree(temporary, ignore_errors=True)
    if found.returncode:
        raise StartFailed(f"mariadb-install-db failed: {(found.stderr or found.stdout).strip()[-2000:]}")


def _as_root() -> list[str]:
    return [] if os.geteuid() else ["--user=root"]


def _find(program: str) -> str:
    """Where it is; "" where it is not. Debian keeps servers off a user's path."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin") or ""


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")
