"""Upgrades a ledger on a server: one process at a time, by a lock of the server's that dies with its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fyke.db.address import Address
from fyke.db.connection import Dialect, Values
from fyke.db.dialect import for_mysql, for_postgres
from fyke.db.migrate import newest_schema, note_schema, refuse_others, run_steps, schema_of
from fyke.db.server_errors import kind_of, translate_server
from fyke.errors import TransientError

WAIT_S = 120
LOCK = {"postgres": "SELECT pg_advisory_xact_lock(hashtextextended('fyke', 0))", "mysql": "SELECT GET_LOCK(%s, %s)"}
DRIVERS = {"postgres": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}


class _Lent:
    """SQLAlchemy's connection as the few statements of an upgrade use it."""

    waited = 0.0

    def __init__(self, raw: Any, dialect: Dialect) -> None:
        self._raw, self.dialect = raw, dialect

    def execute(self, sql: str, values: Values = (), /) -> Any:
        text = (for_postgres if self.dialect == "postgres" else for_mysql)(sql)
        asked: Any = values
        return _Answer(self._raw.exec_driver_sql(text.sql, tuple(asked[key] for key in text.keys)))


class _Answer:
    def __init__(self, found: Any) -> None:
        self._rows: Sequence[Any] = [tuple(row) for row in found.fetchall()] if found.returns_rows else []

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def __iter__(self) -> Any:
        return iter(self._rows)


async def upgrade_server(address: Address, dialect: Dialect, arguments: dict[str, Any]) -> None:
    """Run the missing steps, or wait until another process has. `arguments` are the driver's, for connecting."""
    from sqlalchemy.engine import URL
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    url = URL.create(DRIVERS[dialect])
    engine = create_async_engine(url, poolclass=NullPool, connect_args=arguments)
    try:
        async with asyncio.timeout(WAIT_S), engine.connect() as connection:
            await connection.run_sync(_upgrade, address, dialect)
            await connection.commit()
    except TimeoutError as error:
        raise TransientError(f"{address}: another process has held the upgrade up for {WAIT_S} s") from error
    except Exception as error:
        found = _driver_error(error)
        if found is None:
            raise
        raise translate_server(found, address) from None
    finally:
        await engine.dispose()


def _upgrade(raw: Any, address: Address, dialect: Dialect) -> None:
    values = (f"fyke:{address.database}"[:64], WAIT_S) if dialect == "mysql" else ()
    raw.exec_driver_sql(LOCK[dialect], values)
    lent: Any = _Lent(raw, dialect)
    if schema_of(lent) == newest_schema():
        return
    refuse_others(lent, str(address))
    run_steps(raw)
    note_schema(lent)


def _driver_error(error: BaseException | None) -> BaseException | None:
    """The driver's own error behind SQLAlchemy's."""
    while error is not None:
        if kind_of(error) is not None:
            return error
        error = getattr(error, "orig", None) or error.__cause__
    return None
