"""Upgrades a ledger on a server: one process at a time, by a lock of the server's that dies with its connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fyke.db.address import Address
from fyke.db.connection import Dialect, Rows, Values
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
        asked: Any = values
        if self.dialect == "postgres":
            text = for_postgres(sql)
            final = text.sql
        else:
            text = for_mysql(sql)
            final = text.sql.replace("?", "%s")
        found = self._raw.exec_driver_sql(final, tuple(asked[key] for key in text.keys))
        return Rows([tuple(row) for row in found.fetchall()] if found.returns_rows else [])


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
    driver = logging.getLogger("asyncmy")
    driver.addFilter(_is_news)
    try:
        run_steps(raw)
    finally:
        driver.removeFilter(_is_news)
    note_schema(lent)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a warning of MariaDB's is one: it says of alembic's own table that a primary key has no name there."""
    return "ignored for PRIMARY key" not in record.getMessage()


def _driver_error(error: BaseException | None) -> BaseException | None:
    """The driver's own error behind SQLAlchemy's."""
    while error is not None:
        if kind_of(error) is not None:
            return error
        error = getattr(error, "orig", None) or error.__cause__
    return None
