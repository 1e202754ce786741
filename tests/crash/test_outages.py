"""Real errors of the file: locked by another program, and a full disk (CRASH-WINDOWS 22, 37)."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest

from fyke.app import open_stores
from fyke.db import sqlite as db
from fyke.settings import load_settings
from tests.crash import scenes
from tests.crash.asking import ask, details, passes
from tests.crash.places import FilePlace
from tests.crash.scenario import broken_balance
from tests.crash.world import World


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "point", [("ledger.commit", 1), ("frontier.lease", 3), ("ledger.page", 2), ("frontier.ack", 1)]
)
def test_a_file_locked_by_another_program_costs_nothing_but_time(point: tuple[str, int], file_place: FilePlace) -> None:
    """Row 22."""

    async def scene() -> None:
        world = World(file_place)
        world.site.gone = set()
        async with world.process() as process:
            process.calls.then[point] = lambda: scenes.lock(world, 25.0)
            await world.run(process)
            assert point not in process.calls.then
        assert await broken_balance(world) == []
        assert details(world) == {"a": 1, "b": 2, "c": 1, "d": 1, "e": 1}
        assert ask(world, "SELECT count(*) FROM visit WHERE costs = 1") == [(0,)]
        assert passes(world) == ["complete"]

    file_place.run(scene())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seconds", [8.0, 11.0, 12.5, 14.0, 16.5, 19.0, 23.0, 30.0])
def test_no_lease_of_a_living_worker_is_reaped_after_the_file_was_locked(seconds: float, file_place: FilePlace) -> None:
    """Row 37: readers of a locked file are not disturbed, so the reaper must find out by itself."""

    assert file_place.run(scenes.file_locked(file_place, seconds)) == []


class Disk:
    """A disk that is full until room is made. `max_page_count` stands for it: the engine answers SQLITE_FULL to both.

    A real one would need a file system of its own.
    """

    def __init__(self) -> None:
        self.connections: list[sqlite3.Connection] = []
        self._open = db.open_connection

    def open(self, path: Path, *, read_only: bool = False) -> sqlite3.Connection:
        connection = self._open(path, read_only=read_only)
        self.connections.append(connection)
        return connection

    def fill(self) -> None:
        for connection in self.connections:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages}")

    def free(self) -> None:
        for connection in self.connections:
            connection.execute("PRAGMA max_page_count=1000000")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(db, "open_connection", found.open)
    return found


@pytest.mark.parametrize("point", [("ledger.page", 1), ("ledger.page", 2), ("ledger.commit", 1), ("frontier.offer", 2)])
def test_a_full_disk_costs_nothing_but_time(point: tuple[str, int], disk: Disk, file_place: FilePlace) -> None:
    """Row 22: long bodies, so that the file must grow for each row; room is made after a minute."""

    async def scene() -> None:
        world = World(file_place)
        world.site.gone = set()
        world.site.titles = {key: title * 3_000 for key, title in world.site.titles.items()}
        refused: list[bool] = []

        def fill() -> None:
            disk.fill()
            asyncio.get_running_loop().call_later(60, make_room)

        def make_room() -> None:
            refused.append(process.calls.failed > 0)
            disk.free()

        async with world.process() as process:
            process.calls.then[point] = fill
            await world.run(process)
        assert refused == [True]
        assert await broken_balance(world) == []
        assert details(world) == {"a": 1, "b": 2, "c": 1, "d": 1, "e": 1}
        assert ask(world, "SELECT count(*) FROM visit WHERE costs = 1") == [(0,)]
        assert passes(world) == ["complete"]

    file_place.run(scene())


READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM lane").fetchall())
connection.close()
"""


async def test_opening_the_stores_again_keeps_the_locks_of_this_process(tmp_path: Path) -> None:
    """Else another process could take the write-ahead log away under it, and the file is damaged."""
    settings = load_settings(tmp_path, {"FYKE_LEDGER": f"sqlite:///{tmp_path / 'fyke.db'}"}).settings
    async with open_stores(settings) as stores:
        async with open_stores(settings):
            pass
        await stores.ledger.hold_lane("site.example", 1, "written while others come and go")
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", READER, str(tmp_path / "fyke.db"), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await other.communicate()
        assert said.split() == [b"[(1,)]"]
        assert (tmp_path / "fyke.db-wal").exists()
