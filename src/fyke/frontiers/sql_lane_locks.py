"""Who may change what on a server: the lock of a lane covers its row, its tasks, their permits, and its places.

Locks are taken once in a transaction, by id of lane, before anything is decided on, so no two calls can wait for each
other; only a lease takes more, and it never waits. In a SQLite file the writer is alone: there is nothing to lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from fyke.db.connection import Connection, listed
from fyke.frontiers import sql_statements as sql


class Lane(NamedTuple):
    """A lane's row: on a server as it is under the lock."""

    id: int
    name: str
    gap: int
    jitter: int
    start_at: int
    hold_until: int
    free: int
    ready_text: int
    ready_render: int


# What this transaction has locked; None where nothing needs to be.
Locked: TypeAlias = "dict[int, Lane] | None"


def is_server(connection: Connection) -> bool:
    return connection.dialect != "sqlite"


def by_name(connection: Connection, names: Iterable[str]) -> dict[str, Lane]:
    """The rows of these lanes, locked; those that do not exist are left out."""
    asked = listed(sorted(set(names)))
    if connection.dialect == "mysql":
        # Rows are locked there as they are read, before they are sorted: only ids can be locked in order.
        ids = [row[0] for row in connection.execute(sql.NAMED, (asked,))]
        return {lane.name: lane for lane in _rows(connection, sql.LANES_BY_ID + sql.LOCKED, ids).values()}
    text = sql.LANES_BY_NAME if connection.dialect == "sqlite" else sql.LANES_BY_NAME + sql.LOCKED
    return {row[1]: Lane._make(row) for row in connection.execute(text, (asked,))}


def given_back(connection: Connection, names: Iterable[str], keys: Iterable[str]) -> Locked:
    """Lock these lanes, and those where these keys have permits or places that outlived them."""
    if not is_server(connection):
        return None
    asked = listed(sorted(keys))
    return _of(connection, sql.GIVEN_BACK, (listed(sorted(names)), asked, asked))


def taken_away(connection: Connection, names: Iterable[str], keys: Iterable[str]) -> Locked:
    """Lock these lanes, and those where these keys' tasks and their permits are."""
    if not is_server(connection):
        return None
    asked = listed(sorted(keys))
    return _of(connection, sql.TAKEN_AWAY, (listed(sorted(names)), asked, asked))


def by_id(connection: Connection, ids: Iterable[int]) -> Locked:
    return _rows(connection, sql.LANES_BY_ID + sql.LOCKED, ids) if is_server(connection) else None


def if_free(connection: Connection, ids: Iterable[int]) -> Locked:
    """Lock those that nobody else holds; waits for none."""
    return _rows(connection, sql.LANES_BY_ID + sql.LOCKED_IF_FREE, ids) if is_server(connection) else None


def every(connection: Connection) -> list[int]:
    """Lock all lanes; their ids."""
    return [row[0] for row in connection.execute(sql.EVERY_LANE)]


def _of(connection: Connection, lanes: str, values: tuple[object, ...]) -> dict[int, Lane]:
    if connection.dialect == "mysql":
        ids = [row[0] for row in connection.execute(lanes, values)]
        return _rows(connection, sql.LANES_BY_ID + sql.LOCKED, ids)
    text = f"SELECT {sql.LANE_COLUMNS} FROM task_lane WHERE id IN ({lanes}){sql.LOCKED}"
    return {row[0]: Lane._make(row) for row in connection.execute(text, values)}


def _rows(connection: Connection, text: str, ids: Iterable[int]) -> dict[int, Lane]:
    asked = sorted(set(ids))
    return {row[0]: Lane._make(row) for row in connection.execute(text, (listed(asked),))} if asked else {}
