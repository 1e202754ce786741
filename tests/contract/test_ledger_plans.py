"""Hot statements find their rows by an index on servers, too, whatever a planner makes of half-filled tables."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fyke.db.connection import Connection, listed
from fyke.db.dialect import for_postgres
from fyke.ledgers.sql import SqlLedger
from fyke.testing.clock import FakeClock
from fyke.testing.ledger_steps import Book, make_entry, make_result
from tests.contract.hot_statements import BIG, BY_PARTIAL_INDEX, HOT, ONCE
from tests.ledgers import OpenDatabase

ITEMS = 4_000
ROWS = 500
# A value, and the column that it is compared with.
COMPARED = re.compile(r"(?:(?:\w+\.)?(\w+) (?:=|>|<=|IN \(SELECT value FROM json_each\()\s*)?\?")
ARRAYS = {
    "int8": f"{{{','.join(map(str, range(1, ROWS + 1)))}}}",
    "text": [f"k{number:05}" for number in range(ROWS)],
    "bytea": [b"x"] * ROWS,
}


async def fill(database: Any) -> None:
    """Some thousand items, all of them stored: a planner that looks now believes that nothing is ever pending."""
    book = await Book(SqlLedger(database, FakeClock()), FakeClock()).prepare()
    leases = await book.begin_all(*(f"list {number}" for number in range(ITEMS // 200)))
    due = []
    for lease, start in zip(leases, range(0, ITEMS, 200), strict=True):
        keys = [f"k{(number * 7919) % ITEMS:05}" for number in range(start, start + 200)]
        due += (await book.show(lease, *(make_entry(key) for key in keys))).due
    for start in range(0, ITEMS, 500):
        await book.commit(*(make_result(task) for task in due[start : start + 500]))


def walks(node: dict[str, Any], *, filtered: bool = False) -> Iterator[str]:
    """Nodes of PostgreSQL's plan that read a big table from end to end; `filtered`: only for few of its rows."""
    table, kind = node.get("Relation Name", ""), node["Node Type"]
    looked_up = "Index Cond" in node or "Recheck Cond" in node
    if table in BIG and "Scan" in kind and not looked_up and ("Filter" in node or not filtered):
        yield f"{kind} {table} {node.get('Index Name', '')}"
    for part in node.get("Plans", ()):
        yield from walks(part, filtered=filtered)


async def plan_for_one(raw: Any, sql: str) -> list[str]:
    """What a plan walks that is made for values that are not known yet, and kept."""
    one = for_postgres(sql)
    types = [parameter.name for parameter in (await raw.prepare(one.sql)).get_parameters()]
    given, values = (f"({', '.join(part)})" if part else "" for part in (types, ["NULL"] * len(types)))
    await raw.execute(f"PREPARE hot{given} AS {one.sql}")
    plan = await raw.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE hot{values}")
    await raw.execute("DEALLOCATE hot")
    return list(walks(msgspec.json.decode(plan)[0]["Plan"]))


async def plan_for_many(database: Any, raw: Any, sql: str) -> list[str]:
    """What the plan for these many rows walks, believing that few rows of the table pass.

    One walk for all rows, as a merge is one, is rightly cheaper for a small table; a wrong belief makes it one for a
    big one.
    """
    many = await database.write(lambda connection: connection._learn_many(sql))
    plan = await raw.fetchval(f"EXPLAIN (FORMAT JSON) {many.sql}", *(ARRAYS[name] for name in many.types))
    return list(walks(msgspec.json.decode(plan)[0]["Plan"], filtered=True))


@pytest.mark.parametrize("kind", ["postgres-15", "postgres-18"])
async def test_no_hot_statement_walks_a_big_table_of_postgres(open_database: OpenDatabase, kind: str) -> None:
    database = await open_database(kind)
    await fill(database)
    raw = await database._connect()
    await raw.execute("ANALYZE")
    await database._begin(raw, read=False, durable=True)
    await raw.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    walked = {name: await plan_for_one(raw, sql) for name, sql in HOT.items()}
    for name, sql in HOT.items():
        if name not in ONCE and sql.lstrip().startswith("UPDATE"):
            walked[name] += await plan_for_many(database, raw, sql)
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
        rows = connection.execute("SELECT id, key FROM item ORDER BY key LIMIT 50").fetchall()
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
