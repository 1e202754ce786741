"""Places of worlds: a file whose tables are made once and copied for each test, and a pair of servers that is emptied.

What the pipeline says of faults would hide what matters.
"""

import logging
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from fyke.db import sqlite as db
from fyke.pipeline import once
from tests.crash.pair import Pair
from tests.crash.places import FilePlace, Place
from tests.crash.site import PlayedSource
from tests.crash.virtual import run_virtual
from tests.crash.world import prepare
from tests.servers import Servers


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # In virtual time a look costs as much as anything else.
    monkeypatch.setattr(once, "LOOK_S", 1.0)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "ledger.db"
    run_virtual(prepare(path))
    return path


@pytest.fixture
def fresh_file(made: Path, tmp_path: Path) -> Callable[[], FilePlace]:
    """Makes a file with the played source and nothing else."""
    numbers = count(1)

    def make() -> FilePlace:
        for left in tmp_path.glob("ledger-*.db*"):
            left.unlink()
        return FilePlace(Path(shutil.copy(made, tmp_path / f"ledger-{next(numbers)}.db")))

    return make


@pytest.fixture
def file_place(fresh_file: Callable[[], FilePlace]) -> FilePlace:
    return fresh_file()


@pytest.fixture(scope="session")
def the_pair(servers: Servers) -> Iterator[Pair]:
    database = servers.postgres().create_database("crash")
    pair = Pair(servers.redis().url, database, PlayedSource().resolved)
    yield pair
    pair.close()


@pytest.fixture
def pair(the_pair: Pair) -> Pair:
    """Redis and PostgreSQL with the played source and nothing else."""
    return the_pair.emptied()


@pytest.fixture(params=["sqlite", "pair"])
def fresh_place(request: pytest.FixtureRequest) -> Callable[[], Place]:
    """Makes (or empties) a place; a test has one at a time."""
    name = "fresh_file" if request.param == "sqlite" else "the_pair"
    found = request.getfixturevalue(name)
    return found.emptied if isinstance(found, Pair) else found


@pytest.fixture
def place(fresh_place: Callable[[], Place]) -> Place:
    return fresh_place()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver waits a moment for a lock, where it waits seconds: else the tests would."""
    short = tuple(pragma for pragma in db.PRAGMAS if not pragma.startswith("busy_timeout"))
    monkeypatch.setattr(db, "PRAGMAS", (*short, "busy_timeout=5"))
    monkeypatch.setattr(db, "BUSY_REPEATS", 1)
