"""Fixtures: throw-away servers, one of a kind per test process, started when a test first asks for one.

A test that kills, freezes or configures a server takes one of its own: `own_redis`, `own_postgres`, `own_maria`.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from fyke.lab.servers import MariaServer, PostgresServer, RedisServer, ServerProcess
from fyke.lab.servers.redis import Flavour

# What `fresh_database` takes.
DATABASES = ("postgres-15", "postgres-18", "mariadb")

Kind = TypeVar("Kind", bound=ServerProcess)


class Servers:
    """One server of a kind, started at the first call and again when a test has ended it."""

    def __init__(self, folder: Path, templates: Path, missing: Callable[[str], NoReturn], stack: ExitStack) -> None:
        self.folder, self.templates = folder, templates
        self._missing, self._stack = missing, stack
        self._started: dict[str, Any] = {}
        self._numbers = count(1)

    def redis(self, flavour: Flavour = "valkey-9") -> RedisServer:
        self.require(RedisServer.missing(flavour))
        return self._shared(flavour, lambda folder: RedisServer(folder, flavour))

    def postgres(self, version: int = 15) -> PostgresServer:
        self.require(PostgresServer.missing(version))
        return self._shared(
            f"postgres-{version}", lambda folder: PostgresServer(folder, version, templates=self.templates)
        )

    def maria(self) -> MariaServer:
        self.require(MariaServer.missing())
        return self._shared("mariadb", lambda folder: MariaServer(folder, templates=self.templates))

    def database(self, kind: str) -> PostgresServer | MariaServer:
        """The server of a kind of `DATABASES`."""
        return self.maria() if kind == "mariadb" else self.postgres(int(kind.removeprefix("postgres-")))

    def number(self) -> int:
        return next(self._numbers)

    def require(self, missing: str) -> None:
        """End the test where there is a reason why its server cannot be started."""
        if missing:
            self._missing(missing)

    def _shared(self, kind: str, make: Callable[[Path], Kind]) -> Kind:
        if kind not in self._started:
            self._started[kind] = self._stack.enter_context(make(self.folder / kind))
        server: Kind = self._started[kind]
        return server.start()


@pytest.fixture(scope="session")
def servers(
    tmp_path_factory: pytest.TempPathFactory, backend_missing: Callable[[str], NoReturn], worker_id: str
) -> Iterator[Servers]:
    shared = tmp_path_factory.getbasetemp()
    # Test processes that run beside each other make each template once.
    templates = (shared if worker_id == "master" else shared.parent) / "templates"
    folder = Path(tempfile.mkdtemp(prefix="fyke-servers-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield Servers(folder, templates, backend_missing, stack)


@pytest.fixture
def fresh_database(servers: Servers) -> Iterator[Callable[[str], str]]:
    """The address of an empty database, on a server of a kind of `DATABASES`; it is dropped after the test."""
    with ExitStack() as stack:

        def make(kind: str) -> str:
            server, name = servers.database(kind), f"test_{servers.number()}"
            url = server.create_database(name)
            stack.callback(lambda: server.start().drop_database(name))
            return url

        yield make


@pytest.fixture
def fresh_redis(servers: Servers) -> Callable[..., str]:
    """The address of an emptied server of a flavour; a test has one of a flavour."""

    def make(flavour: Flavour = "valkey-9") -> str:
        server = servers.redis(flavour)
        server.ask("FLUSHALL")
        server.ask("SCRIPT", "FLUSH")
        return server.url

    return make


@pytest.fixture
def own_redis(servers: Servers, tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Start a server for this test alone: to kill it, to freeze it, with `options` of its own."""
    with ExitStack() as stack:

        def make(flavour: Flavour = "valkey-9", **settings: Any) -> RedisServer:
            servers.require(RedisServer.missing(flavour))
            return stack.enter_context(RedisServer(tmp_path / f"redis-{servers.number()}", flavour, **settings))

        yield make


@pytest.fixture
def own_postgres(servers: Servers, tmp_path: Path) -> Iterator[Callable[..., PostgresServer]]:
    with ExitStack() as stack:

        def make(version: int = 15, **settings: Any) -> PostgresServer:
            servers.require(PostgresServer.missing(version))
            folder = tmp_path / f"postgres-{servers.number()}"
            return stack.enter_context(PostgresServer(folder, version, templates=servers.templates, **settings))

        yield make


@pytest.fixture
def own_maria(servers: Servers, tmp_path: Path) -> Iterator[Callable[..., MariaServer]]:
    with ExitStack() as stack:

        def make(**settings: Any) -> MariaServer:
            servers.require(MariaServer.missing())
            folder = tmp_path / f"mariadb-{servers.number()}"
            return stack.enter_context(MariaServer(folder, templates=servers.templates, **settings))

        yield make
