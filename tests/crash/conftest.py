"""The tables are made once, and copied for each test; what the pipeline says of faults would hide what matters."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fyke.db import sqlite as db
from fyke.pipeline import once
from tests.crash.virtual import run_virtual
from tests.crash.world import prepare


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
def ledger_file(made: Path, tmp_path: Path) -> Path:
    """A ledger with the played source and nothing else."""
    return Path(shutil.copy(made, tmp_path / "ledger.db"))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver waits a moment for a lock, where it waits seconds: else the tests would."""
    short = tuple(pragma for pragma in db.PRAGMAS if not pragma.startswith("busy_timeout"))
    monkeypatch.setattr(db, "PRAGMAS", (*short, "busy_timeout=5"))
    monkeypatch.setattr(db, "BUSY_REPEATS", 1)
