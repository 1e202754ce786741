"""Settings, SQL and JSON that pages show are read by what would read them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fyke.app import SystemClock
from fyke.db.sqlite import SqliteDatabase
from fyke.db.typed import ensure_table
from fyke.ledgers.sql import SqlLedger
from fyke.model import Column, ColumnType
from fyke.settings import load_settings
from tests.docs.pages import PAGES, Block, blocks

BLOCKS = [block for path in PAGES for block in blocks(path)]
KINDS = {
    *("", "sh", "yaml", "yaml source", "python", "python source"),
    *("toml", "sql", "json", "ini"),
}
COLUMNS = (
    Column("title"),
    Column("buyer"),
    Column("budget", ColumnType.NUMBER),
    Column("published", ColumnType.DATETIME),
)


def shown(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.info == kind]


async def make_ledger(path: Path) -> None:
    database = SqliteDatabase(path)
    try:
        await SqlLedger(database, SystemClock()).migrate()
        await database.write(lambda connection: ensure_table(connection, "gov_procure", COLUMNS, 0))
    finally:
        await database.close()


def test_every_block_says_what_it_is() -> None:
    assert {(block.page, block.info) for block in BLOCKS if block.info not in KINDS} == set()


@pytest.mark.parametrize("block", shown("toml"), ids=lambda block: str(block.page))
def test_settings_that_a_page_shows_are_read(block: Block, tmp_path: Path) -> None:
    (tmp_path / "fyke.toml").write_text(block.text, encoding="utf-8")
    loaded = load_settings(tmp_path, {})
    assert any(origin.startswith("fyke.toml") for origin in loaded.origins.values())


@pytest.mark.parametrize("block", shown("json"), ids=lambda block: str(block.page))
def test_json_that_a_page_shows_is_json(block: Block) -> None:
    assert json.loads(block.text)


async def test_sql_that_a_page_shows_fits_the_tables(tmp_path: Path) -> None:
    await make_ledger(tmp_path / "fyke.db")
    statements = [part for block in shown("sql") for part in block.text.split(";") if part.strip()]
    assert len(statements) > 5
    with closing(sqlite3.connect(tmp_path / "fyke.db")) as ledger:
        for statement in statements:
            ledger.execute(f"EXPLAIN {statement}", {"id": 1, "g": 1})
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            ledger.execute("EXPLAIN SELECT buyers FROM gov_procure")
