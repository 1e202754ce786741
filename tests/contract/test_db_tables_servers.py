"""A ledger's tables on servers: made once whoever comes first, as they are defined; typed tables as on SQLite."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, inspect
from sqlalchemy.ext.asyncio import create_async_engine

from fyke.db.connection import Connection, Database
from fyke.db.migrate import migrate, newest_schema, schema_of
from fyke.db.names import CORE_TABLES, CORE_UNIQUE, SERVER_TABLES
from fyke.db.server import ServerDatabase
from fyke.db.sqlite import SqliteDatabase
from fyke.db.tables import METADATA
from fyke.db.typed import TypedTable, ensure_table, read_table
from fyke.errors import LedgerClosed, UsageError
from fyke.model import Column, ColumnType
from fyke.testing.effects import Effect, install_effect_log, read_effects, written_twice
from tests.databases import KINDS, open_database

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_760_000_000_000
META = "SELECT name, value FROM meta ORDER BY name"
COLUMNS = (
    Column("title"),
    Column("budget", ColumnType.NUMBER),
    Column("order", ColumnType.INTEGER),
    Column("open", ColumnType.BOOLEAN),
    Column("at", ColumnType.DATETIME),
    Column("tags", ColumnType.JSON),
)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> str:
    return fresh_database(request.param)


@pytest.fixture
async def database(url: str) -> AsyncIterator[ServerDatabase]:
    found = open_database(url)
    yield found
    await found.close()


async def meta(database: Database) -> dict[str, str]:
    return dict(await database.read(lambda connection: connection.execute(META).fetchall()))


# --- Migrations ---

START = """
import asyncio, sys
from fyke.db.migrate import migrate
from tests.databases import open_database

async def main():
    database = open_database(sys.argv[1])
    await migrate(database)
    print((await database.read(lambda c: c.execute("SELECT value FROM meta WHERE name = 'ledger_id'").fetchone()))[0])
    await database.close()

asyncio.run(main())
"""


async def test_processes_that_upgrade_at_once_make_one_ledger(url: str, database: ServerDatabase) -> None:
    command = [sys.executable, "-W", "error", "-c", START, url]
    started = [
        await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": f"{ROOT}:{ROOT}/src"}
        )
        for _ in range(4)
    ]
    ended = await asyncio.gather(*(process.communicate() for process in started))
    assert [process.returncode for process in started] == [0] * 4, b"\n".join(error for _, error in ended).decode()
    found = await meta(database)
    assert {out.decode().strip() for out, _ in ended} == {found["ledger_id"]}
    assert found["schema"] == newest_schema()
    assert found["epoch"] == "1"


async def test_an_upgraded_ledger_is_left_alone(database: ServerDatabase) -> None:
    await migrate(database)
    before = await meta(database)
    await migrate(database)
    assert await meta(database) == before
    assert await database.read(schema_of) == newest_schema()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
@pytest.mark.parametrize("table", ["meta", "typed_table", "pass", "item", "event", "task"])
async def test_an_upgrade_that_was_cut_short_is_taken_up_again(
    database: ServerDatabase, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import op

    make, execute = op.create_table, op.execute

    def die(name: str, *parts: Any, **options: Any) -> Any:
        if name == table:
            raise KeyboardInterrupt
        return make(name, *parts, **options)

    def die_too(statement: Any, *parts: Any, **options: Any) -> Any:
        if table == "task" and "EXISTS task(" in str(statement):
            raise KeyboardInterrupt
        return execute(statement, *parts, **options)

    with monkeypatch.context() as patch:
        patch.setattr(op, "create_table", die)
        patch.setattr(op, "execute", die_too)
        with pytest.raises(KeyboardInterrupt):
            await migrate(database)
    assert await database.read(schema_of) == ""
    await migrate(database)
    assert await database.read(schema_of) == newest_schema()
    assert await shape(database) >= {name for name in CORE_TABLES if name != "alembic_version"}


@pytest.mark.parametrize("url", ["postgres-15"], indirect=True)
async def test_an_upgrade_that_is_cut_short_leaves_nothing(
    database: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(connection: Connection) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fyke.db.upgrading.note_schema", die)
        with pytest.raises(KeyboardInterrupt):
            await migrate(database)
    assert await shape(database) == set()
    await migrate(database)


async def shape(database: ServerDatabase) -> set[str]:
    schema = "DATABASE()" if database.dialect == "mysql" else "current_schema()"
    text = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}"
    return {name for (name,) in await database.read(lambda connection: connection.execute(text).fetchall())}


async def test_the_migrations_make_the_tables_that_are_defined(
    url: str, database: ServerDatabase, fresh_database: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    await migrate(database)
    defined = fresh_database(request.node.callspec.params["url"])
    found, wanted = await described(url, None), await described(defined, METADATA)
    # What MariaDB has instead of a partial unique index, and its counter.
    extra = {"run": {"running_source"}, "dead": {"open_item"}} if database.dialect == "mysql" else {}
    for table, columns in wanted.items():
        names = {name: kind for name, kind in found[table].items() if name not in extra.get(table, set())}
        assert names == columns, table
    assert await shape(database) == CORE_TABLES | (SERVER_TABLES if database.dialect == "mysql" else set())


async def described(url: str, metadata: MetaData | None) -> dict[str, dict[str, Any]]:
    """Columns of each table, with kind, collation and whether they may be missing."""
    scheme, _, rest = url.partition("://")
    engine = create_async_engine(f"{'postgresql+asyncpg' if scheme == 'postgresql' else 'mysql+asyncmy'}://{rest}")
    async with engine.begin() as connection:
        if metadata is not None:
            if scheme == "mysql":
                await connection.exec_driver_sql("ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin")
            await connection.run_sync(metadata.create_all)

        def look(raw: Any) -> dict[str, dict[str, Any]]:
            looked = inspect(raw)
            return {
                table: {c["name"]: (str(c["type"]), c["nullable"]) for c in looked.get_columns(table)}
                for table in looked.get_table_names()
            }

        found: dict[str, dict[str, Any]] = await connection.run_sync(look)
    await engine.dispose()
    return found


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_every_unique_key_of_ours_is_known_by_its_name(database: ServerDatabase) -> None:
    await migrate(database)
    text = (
        "SELECT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND non_unique = 0"
        " GROUP BY index_name"
    )
    found = {name for (name,) in await database.read(lambda connection: connection.execute(text).fetchall())}
    assert found == CORE_UNIQUE


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_no_text_of_ours_is_compared_but_byte_for_byte(database: ServerDatabase) -> None:
    await migrate(database)
    text = (
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
        " AND collation_name <> 'utf8mb4_nopad_bin' AND table_name <> 'alembic_version'"
    )
    assert await database.read(lambda connection: connection.execute(text).fetchall()) == []


async def test_one_running_run_and_one_open_letter_whatever_the_server_has_for_it(database: ServerDatabase) -> None:
    await migrate(database)
    run = (
        "INSERT INTO run(source_id, slot, started_by, state, started_at, limit_ms, deadline)"
        " VALUES (1, ?, 'cron', ?, 0, 0, 0)"
    )
    await database.write(lambda connection: connection.execute(run, (1, "complete")))
    await database.write(lambda connection: connection.execute(run, (2, "complete")))
    await database.write(lambda connection: connection.execute(run, (3, "running")))
    # Ours: so the race is run again, and told when it does not end.
    with pytest.raises(Exception, match="run_one"):
        await database.write(lambda connection: connection.execute(run, (4, "running")))
    await database.write(lambda connection: connection.execute("UPDATE run SET state = ? WHERE slot = 3", ("gap",)))
    await database.write(lambda connection: connection.execute(run, (4, "running")))


async def test_another_programs_database_is_refused_and_left_alone(database: ServerDatabase) -> None:
    await database.write(lambda connection: connection.execute("CREATE TABLE customers(id BIGINT PRIMARY KEY)"))
    with pytest.raises(UsageError, match="another program"):
        await migrate(database)
    assert await shape(database) == {"customers"}


async def test_a_ledger_that_was_moved_or_is_newer_is_refused(database: ServerDatabase) -> None:
    await migrate(database)
    await database.write(lambda c: c.execute("UPDATE meta SET value = ? WHERE name = 'schema'", ("9999",)))
    with pytest.raises(UsageError, match="9999"):
        await migrate(database)
    await database.write(lambda c: c.execute("INSERT INTO meta(name, value) VALUES (?, ?)", ("moved_to", "elsewhere")))
    with pytest.raises(LedgerClosed, match="moved to elsewhere"):
        await migrate(database)


@pytest.mark.parametrize("url", ["postgres-15"], indirect=True)
async def test_who_may_not_make_tables_is_told(url: str, database: ServerDatabase) -> None:
    name = url.rpartition("/")[2]
    await database.write(lambda c: c.execute(f"CREATE ROLE guest_{name} LOGIN"))
    guest = open_database(url.replace("//fyke@", f"//guest_{name}@"))
    with pytest.raises(UsageError, match="all rights"):
        await migrate(guest)
    await guest.close()
    await database.write(lambda c: c.execute(f"DROP ROLE guest_{name}"))


# --- Typed tables ---


@pytest.fixture
async def ledger(database: ServerDatabase) -> ServerDatabase:
    await migrate(database)
    return database


async def ensure(database: Database, columns: tuple[Column, ...]) -> bool:
    return await database.write(lambda connection: ensure_table(connection, "gov_procure", columns, NOW))


async def table_of(database: Database) -> TypedTable:
    found = await database.read(lambda connection: read_table(connection, "gov_procure"))
    assert found is not None
    return found


RECORDS: list[dict[str, Any]] = [
    {
        "title": "道路 \\ 'x' 😀 ",
        "budget": "12345678901234567890.123",
        "order": 2**62,
        "open": True,
        "tags": ["a", None],
    },
    {"title": "", "budget": 0.1, "order": -1, "open": False, "at": "2026-01-02T03:04:05+08:00", "tags": {"b": 1}},
    {"budget": "1280000", "open": 1},
    {"budget": 10**25},
    {"budget": "0.10", "order": "7"},
    {},
]


async def test_a_typed_table_gives_back_what_sqlite_gives_back(ledger: ServerDatabase, tmp_path: Path) -> None:
    embedded = SqliteDatabase(tmp_path / "fyke.db")
    await migrate(embedded)
    found = []
    for database in (embedded, ledger):
        assert await ensure(database, COLUMNS)
        table = await table_of(database)
        rows = [[n, "s", f"k{n}", "u", 1, NOW, NOW, *table.bind(record)] for n, record in enumerate(RECORDS, 1)]

        def write(connection: Connection, upsert: str = table.upsert, rows: list[list[Any]] = rows) -> None:
            for _ in range(2):
                connection.executemany(upsert, rows)
            connection.execute(upsert, rows[0])

        await database.write(write)
        select = f"{table.select} ORDER BY _item_id"
        found.append(await database.read(lambda connection, text=select: connection.execute(text).fetchall()))  # type: ignore[misc]
        assert [list(row) for row in found[-1]] == rows
    assert found[0] == found[1]
    assert [[type(v) for v in row if not isinstance(v, bool)] for row in found[1]] == [
        [type(v) for v, w in zip(row, other, strict=True) if not isinstance(w, bool)]
        for row, other in zip(found[0], found[1], strict=True)
    ]
    await embedded.close()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_number_that_mariadb_would_round_is_refused_with_its_row(ledger: ServerDatabase) -> None:
    await ensure(ledger, COLUMNS)
    table = await table_of(ledger)
    row = [1, "s", "k", "u", 1, NOW, NOW, *table.bind({"budget": "0." + "1" * 31})]
    for many in ([row], [row, [2, *row[1:]]]):
        with pytest.raises(ValueError, match="more digits"):
            await ledger.write(lambda connection, rows=many: connection.executemany(table.upsert, rows))  # type: ignore[misc]


async def test_schedulers_that_widen_a_table_at_once_agree(url: str, ledger: ServerDatabase) -> None:
    others = [open_database(url) for _ in range(4)]
    assert sorted(await asyncio.gather(*(ensure(database, COLUMNS[:1]) for database in others))) == [False] * 3 + [True]
    wider = [COLUMNS[:2], COLUMNS[:1] + COLUMNS[2:4], COLUMNS[3:5], COLUMNS[1:]]
    await asyncio.gather(*(ensure(database, columns) for database, columns in zip(others, wider, strict=True)))
    table = await table_of(ledger)
    assert set(table.columns) == {(column.name, column.type) for column in COLUMNS}
    await ledger.write(lambda c: c.execute(table.upsert, [1, "s", "k", "u", 1, NOW, NOW, *table.bind(RECORDS[0])]))
    for database in others:
        await database.close()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
async def test_a_table_that_was_made_and_not_registered_is_taken_up_again(ledger: ServerDatabase) -> None:
    await ensure(ledger, COLUMNS[:2])
    await ledger.write(lambda connection: connection.execute("DELETE FROM typed_table"))
    assert await ensure(ledger, COLUMNS[:4])
    table = await table_of(ledger)
    assert [name for name, _ in table.columns] == ["title", "budget", "order", "open"]
    found = await ledger.read(lambda connection: connection.execute(table.select))
    assert found.fetchall() == []


async def test_a_table_of_another_program_is_not_taken(ledger: ServerDatabase) -> None:
    await ledger.write(lambda connection: connection.execute("CREATE TABLE gov_procure(id BIGINT PRIMARY KEY)"))
    with pytest.raises(UsageError, match="in this database already"):
        await ensure(ledger, COLUMNS)


async def test_each_writing_that_changes_a_row_is_counted(ledger: ServerDatabase) -> None:
    await ensure(ledger, COLUMNS)
    table = await table_of(ledger)
    await ledger.write(lambda connection: install_effect_log(connection, "gov_procure"))
    # Once more, as after a widening.
    await ledger.write(lambda connection: install_effect_log(connection, "gov_procure"))
    row = [1, "s", "k", "u", 1, NOW, NOW, *table.bind(RECORDS[0])]
    same, newer = [*row[:5], NOW + 5, *row[6:]], [*row[:4], 2, NOW, NOW, *table.bind({})]
    for values in (row, same, newer):
        await ledger.write(lambda connection, v=values: connection.execute(table.upsert, v))  # type: ignore[misc]
    assert await ledger.read(written_twice) == []
    await ledger.write(lambda connection: connection.execute(table.upsert, [*newer[:6], NOW + 1, *newer[7:]]))
    await ledger.write(lambda connection: connection.execute("DELETE FROM gov_procure WHERE _item_id = ?", (1,)))
    effects = await ledger.read(read_effects)
    kinds = [("insert", 1), ("update", 2), ("update", 2), ("delete", 2)]
    assert effects == [Effect("gov_procure", kind, 1, "s", "k", version) for kind, version in kinds]
    assert await ledger.read(written_twice) == [("s", "k", 2, 2)]
