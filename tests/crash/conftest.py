"""The tables are made once, and copied for each test; what the pipeline says of faults would hide what matters."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.virtual import run_virtual
from tests.crash.world import prepare


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
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
