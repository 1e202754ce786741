"""The table of the ways that store into PostgreSQL, with a unique key or without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from fyke.lab.modes.stage import Place, Row

COLUMNS: Final = "title text, url text, buyer text"


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(place.database)
    try:
        yield connection
    finally:
        await connection.close()


async def prepare_unique(place: Place, _: int) -> None:
    async with opened(place) as connection:
        await connection.execute(
            f"DROP TABLE IF EXISTS gov_procure; CREATE TABLE gov_procure (id text PRIMARY KEY, {COLUMNS})"
        )


async def prepare_plain(place: Place, _: int) -> None:
    async with opened(place) as connection:
        await connection.execute(f"DROP TABLE IF EXISTS gov_procure; CREATE TABLE gov_procure (id text, {COLUMNS})")


async def insert(connection: asyncpg.Connection, row: Row, buyer: str) -> None:
    await connection.execute("INSERT INTO gov_procure VALUES ($1, $2, $3, $4)", row.key, row.title, row.url, buyer)


async def insert_once(connection: asyncpg.Connection, row: Row, buyer: str) -> None:
    await connection.execute(
        "INSERT INTO gov_procure VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING",
        *(row.key, row.title, row.url, buyer),
    )


async def count(place: Place, _: int) -> list[str]:
    async with opened(place) as connection:
        return [row["id"] for row in await connection.fetch("SELECT id FROM gov_procure")]
