"""One connection to MariaDB or MySQL: its prepared statements, and values as its protocol wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from asyncmy.errors import MySQLError

from fyke.db.connection import Values
from fyke.db.dialect import LIST, Text
from fyke.db.numbers import WHOLE_LIMIT, for_mariadb, plain_number

T = TypeVar("T")
STATEMENTS = 128  # of each connection; a server has 16,382 for all
# What stands around a value: type, length, indicator.
VALUE_BYTES = 12
NUMERIC = 246
UNPREPARABLE, STALE, TOO_MANY = 1295, 1615, 1461


class Session:
    """One connection: its prepared statements, and what its server can do."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.packet = 0
        self.mariadb = False
        self.patient = False  # a transaction of it may stand still for as long as a read
        self._prepared: dict[str, Any] = {}

    async def run(self, sql: str, values: Sequence[Any], seconds: float) -> Any:
        """The driver's result: `rows`, `insert_id`, `description`."""
        async with asyncio.timeout(seconds):
            try:
                statement = await self._statement(sql)
                return await statement.execute(values)
            except MySQLError as error:
                if error.args[0] == UNPREPARABLE and not values:
                    await self.raw.query(sql)
                    return None
                if error.args[0] == STALE:
                    self._prepared.pop(sql, None)
                raise

    async def say(self, sql: str, seconds: float) -> None:
        """A statement without values and rows."""
        async with asyncio.timeout(seconds):
            await self.raw.query(sql)

    async def run_many(self, sql: str, rows: Sequence[Sequence[Any]], seconds: float) -> None:
        """One round trip for all rows.

        Raises:
            ValueError: the server, or the driver, cannot; nothing was sent.
        """
        async with asyncio.timeout(seconds):
            statement = await self._statement(sql)
            await statement.execute_bulk(rows)

    async def _statement(self, sql: str) -> Any:
        found = self._prepared.pop(sql, None)
        if found is None:
            if len(self._prepared) >= STATEMENTS:
                await self._forget(next(iter(self._prepared)))
            try:
                found = await self.raw.prepare(sql)
            except MySQLError as error:
                if error.args[0] != TOO_MANY:
                    raise
                # The server has no room for more, of all its connections: this one gives back what it has.
                for known in list(self._prepared):
                    await self._forget(known)
                found = await self.raw.prepare(sql)
        # The last one used stands last.
        self._prepared[sql] = found
        return found

    async def _forget(self, sql: str) -> None:
        await self._prepared.pop(sql).close()


async def timed(question: Awaitable[T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await question


def bindable(value: Any) -> Any:
    """
    Raises:
        ValueError: a number of more than 64 bits, which the driver would send as another one.
    """
    kind = type(value)
    if kind is int and not -WHOLE_LIMIT <= value < WHOLE_LIMIT:
        raise ValueError(f"{value} has more than 64 bits")
    # As text a number of either kind arrives with all its digits.
    return repr(value) if kind is float else int(value) if kind is bool else value


def size_of(values: Sequence[Any]) -> int:
    """At most so many bytes on the wire."""
    size = VALUE_BYTES * len(values)
    for value in values:
        if isinstance(value, str):
            size += len(value) if value.isascii() else 4 * len(value)
        elif isinstance(value, bytes):
            size += len(value)
    return size


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    if found is None or not found.rows:
        return []
    rows: list[tuple[Any, ...]] = list(found.rows)
    numerics = {at for at, column in enumerate(found.description) if column[1] == NUMERIC}
    if not numerics:
        return rows
    return [tuple(plain_number(value) if isinstance(value, Decimal) else value for value in row) for row in rows]


def bound(text: Text, values: Values) -> tuple[str, Sequence[Any]]:
    asked: Any = values
    if text.numbers:
        asked = [for_mariadb(value) if place in text.numbers else value for place, value in enumerate(asked)]
    if text.plain:
        return text.sql, asked
    if not text.lists:
        return text.sql, [asked[key] for key in text.keys]
    sql, found = "", []
    pieces = iter(text.sql.split(LIST))
    sql = next(pieces)
    for place, key in enumerate(text.keys):
        if place not in text.lists:
            found.append(asked[key])
            continue
        members = _padded(asked[key].values)
        found += members
        # An empty list has nothing in it; NULL would make NOT IN false.
        sql += (", ".join("?" * len(members)) or "SELECT 1 FROM DUAL WHERE 1 = 0") + next(pieces)
    return sql, found


def _padded(values: Sequence[Any]) -> list[Any]:
    """Filled up with its last one to one of few lengths, so that few statements are prepared."""
    if len(values) < 2:
        return list(values)
    length = 1 << (len(values) - 1).bit_length() if len(values) <= 1_024 else -(-len(values) // 1_024) * 1_024
    return [*values, *[values[-1]] * (length - len(values))]


def in_powers(rows: list[list[Any]], most: int) -> Iterator[tuple[list[list[Any]], int]]:
    """Parts of 2ⁿ rows, the largest first: few different statements for any number of rows."""
    start = 0
    while start < len(rows):
        count = 1 << (min(len(rows) - start, max(1, most)).bit_length() - 1)
        yield rows[start : start + count], count
        start += count
