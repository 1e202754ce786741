"""The lock where there is no Redis: a row of the ledger's table `meta`, by the database's clock."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from fyke.db.connection import Connection, Database
from fyke.ports import Clock

PREFIX: Final = "lock:"
READ: Final = "SELECT value FROM meta WHERE name = ?"


class Held(Struct):
    """What the row says. The token outlives the holder, so that the next one is greater."""

    owner: str
    token: int
    until: int


class SqlLock:
    """Implements `ports.Lock`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db, self._clock = database, clock

    async def acquire(self, name: str, owner: str, ms: int) -> int | None:
        # A reader is asked first: those that only wait for it write nothing.
        held = await self._db.read(lambda connection: _read(connection, name))
        if held is not None and held.owner and held.until > self._clock.now():
            return None

        def call(connection: Connection) -> int | None:
            held, now = _read(connection, name, lock=True), self._clock.now()
            if held is not None and held.owner and held.until > now:
                return None
            # Not less than the time: tokens grow also over a ledger that was set back.
            token = max(held.token + 1 if held else 0, now)
            _write(connection, name, Held(owner, token, now + ms), known=held is not None)
            return token

        return await self._db.write(call)

    async def renew(self, name: str, owner: str, token: int, ms: int) -> bool:
        def call(connection: Connection) -> bool:
            held, now = _read(connection, name, lock=True), self._clock.now()
            if held is None or (held.owner, held.token) != (owner, token) or held.until <= now:
                return False
            _write(connection, name, Held(owner, token, now + ms), known=True)
            return True

        return await self._db.write(call, durable=False)

    async def release(self, name: str, owner: str, token: int) -> bool:
        def call(connection: Connection) -> bool:
            held = _read(connection, name, lock=True)
            if held is None or (held.owner, held.token) != (owner, token):
                return False
            _write(connection, name, Held("", token, 0), known=True)
            return True

        return await self._db.write(call, durable=False)


def _read(connection: Connection, name: str, *, lock: bool = False) -> Held | None:
    row = connection.execute(f"{READ} FOR UPDATE" if lock else READ, (PREFIX + name,)).fetchone()
    return msgspec.json.decode(row[0], type=Held) if row is not None else None


def _write(connection: Connection, name: str, held: Held, *, known: bool) -> None:
    text = msgspec.json.encode(held).decode()
    if known:
        connection.execute("UPDATE meta SET value = ? WHERE name = ?", (text, PREFIX + name))
    else:
        connection.execute("INSERT INTO meta(name, value) VALUES (?, ?)", (PREFIX + name, text))
