"""Two local ways: a file of known ids on each machine, and one SQLite file that is asked and then written.

Each node is a whole program that reads the list and the details, as one more machine with the same script is.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from fyke.lab.modes.stage import Place, Reader, Row, play

TABLE: Final = "CREATE TABLE IF NOT EXISTS gov_procure (id TEXT, title TEXT, url TEXT, buyer TEXT)"


def opened(place: Place) -> sqlite3.Connection:
    """The table has no unique key: the check before it is all that these ways have."""
    return sqlite3.connect(Path(place.folder) / "rows.db", timeout=60, isolation_level=None)


def write(connection: sqlite3.Connection, row: Row, buyer: str) -> None:
    connection.execute("INSERT INTO gov_procure VALUES (?, ?, ?, ?)", (row.key, row.title, row.url, buyer))


async def prepare(place: Place, _: int) -> None:
    connection = opened(place)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute(TABLE)
    connection.close()


async def file_node(place: Place, number: int) -> None:
    """Known is what this machine's own file has."""
    path = Path(place.folder) / f"known-{number}.txt"
    known = set(path.read_text().split()) if path.exists() else set()
    connection = opened(place)
    with path.open("a") as written:
        async with Reader(place) as reader:
            async for row in reader.rows():
                if row.key in known:
                    continue
                write(connection, row, await reader.detail(row))
                written.write(f"{row.key}\n")
                written.flush()
                known.add(row.key)
    connection.close()


async def sqlite_node(place: Place, _: int) -> None:
    """Known is what SELECT finds; between it and the INSERT another node looks too."""
    connection = opened(place)
    async with Reader(place) as reader:
        async for row in reader.rows():
            if connection.execute("SELECT 1 FROM gov_procure WHERE id = ?", (row.key,)).fetchone():
                continue
            write(connection, row, await reader.detail(row))
    connection.close()


async def count(place: Place, _: int) -> list[str]:
    connection = opened(place)
    keys = [key for (key,) in connection.execute("SELECT id FROM gov_procure")]
    connection.close()
    return keys


if __name__ == "__main__":
    play({"prepare": prepare, "file": file_node, "sqlite": sqlite_node, "count": count})
