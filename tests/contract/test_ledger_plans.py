"""Hot statements find their rows by an index on servers, too, whatever a planner makes of half-filled tables."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fyke.db.batches import batch_for_postgres
from fyke.db.connection import Connection, listed
from fyke.db.dialect import LIST, for_postgres
from fyke.ledgers.sql import SqlLedger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_steps import Book, make_entry, make_result
from tests.contract.hot_statements import BIG, BY_PARTIAL_INDEX, HOT, ONCE
from tests.ledgers import OpenDatabase

ITEMS, STORED = 4_000, 1_500
# A value, and the column that it is compared with.
COMPARED = re.compile(r"(?:(?:\w+\.)?(\w+) (?:=|>|<=|IN \(SELECT value FROM json_each\()\s*)?\?")


async def fill(database: Any) -> None:
    """Some thousand items, a third of them stored; the rest is pending."""
    book = await Book(SqlLedger(database, FakeClock()), FakeClock()).prepare()
    leases = await book.begin_all(*(f"list {number}" for number in range(ITEMS // 200)))
    due = []
    for lease, start in zip(leases, range(0, ITEMS, 200), strict=True):
        keys = [f"k{(number * 7919) % ITEMS:05}" for number in range(start, start + 200)]
        due += (await book.show(lease, *(make_entry(key) for key in keys))).due
    for start in range(0, STORED, 500):
        await book.commit(*(make_result(task) for task in due[start : start + 500]))


def walks(node: dict[str, Any]) -> Iterator[str]:
    """Nodes of PostgreSQL's plan that read a big table from end to end."""
    table, kind = node.get("Relation Name", ""), node["Node Type"]
    if table in BIG and "Scan" in kind and "Index Cond" not in node and "Recheck Cond" not in node:
        yield f"{kind} {table} {node.get('Index Name', '')}"
    for part in node.get("Plans", ()):
        yield from walks(part)


async def postgres_plan(raw: Any, sql: str, *, many: bool) -> list[str]:
    """What its plan walks, made for values that are not known yet, alone and for many rows at once."""
    found: list[str] = []
    one = for_postgres(sql)
    types = [parameter.name for parameter in (await raw.prepare(one.sql)).get_parameters()]
    texts = [(one.sql, types)]
    if many and sql.lstrip().startswith("UPDATE") and not one.lists:
        arrays = ", ".join(f"${place + 1}" for place in range(len(types)))
        texts.append((batch_for_postgres(sql).sql.replace(LIST, arrays), [f"{name}[]" for name in types]))
    for text, names in texts:
        given = f"({', '.join(names)})" if names else ""
        await raw.execute(f"PREPARE hot{given} AS {text}")
        values = f"({', '.join(['NULL'] * len(names))})" if names else ""
        plan = await raw.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE hot{values}")
        await raw.execute("DEALLOCATE hot")
        found += walks(msgspec.json.decode(plan)[0]["Plan"])
    return found


@pytest.mark.parametrize("kind", ["postgres-15", "postgres-18"])
async def test_no_hot_statement_walks_a_big_table_of_postgres(open_database: OpenDatabase, kind: str) -> None:
    database = await open_database(kind)
    await fill(database)
    raw = await database._connect()
    await raw.execute("ANALYZE; SET plan_cache_mode = force_generic_plan")
    walked = {name: await postgres_plan(raw, sql, many=name not in ONCE) for name, sql in HOT.items()}
    await raw.close()
    for name, index in BY_PARTIAL_INDEX.items():
        walked[name] = [step for step in walked[name] if index not in step]
    assert {name: steps for name, steps in walked.items() if steps} == {}


def sample(sql: str, ids: list[int], keys: list[str]) -> list[Any]:
    """Values that are in the tables."""
    values: list[Any] = []
    for found in COMPARED.finditer(sql):
        many = "json_each" in found[0]
        if found[1] == "key":
            values.append(listed(keys) if many else keys[0])
        elif found[1] == "scope":
            values.append("notice")
        elif many:
            values.append(listed(ids))
        else:
            values.append(ids[0] if found[1] in ("id", "item_id") else 1)
    return values


async def test_no_hot_statement_walks_a_big_table_of_mariadb(open_database: OpenDatabase) -> None:
    database = await open_database("mariadb")
    await fill(database)

    def call(connection: Connection) -> dict[str, list[str]]:
        for table in BIG:
            connection.execute(f"ANALYZE TABLE {table}")
        rows = connection.execute("SELECT id, key FROM item WHERE pending = 1 ORDER BY key LIMIT 50").fetchall()
        ids, keys = sorted(row[0] for row in rows), [row[1] for row in rows]
        walked = {}
        for name, sql in HOT.items():
            if sql.lstrip().startswith("INSERT"):
                continue
            aliases = dict(re.findall(r"(?:FROM|JOIN) (\w+) (\w+)\b", sql))
            tables = {alias: table for table, alias in aliases.items()}
            steps = connection.execute(f"EXPLAIN {sql}", sample(sql, ids, keys)).fetchall()
            # table, type, key; a whole index is a walk, too
            walked[name] = [
                f"{step[3]} {step[2]} {step[5]}"
                for step in steps
                if tables.get(step[2], step[2]) in BIG and step[3] in ("ALL", "index")
            ]
        return walked

    walked = await database.write(call)
    assert {name: steps for name, steps in walked.items() if steps} == {}
