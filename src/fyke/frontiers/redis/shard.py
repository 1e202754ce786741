"""One shard: calls of its scripts, its clock, and signs that it lost something.

Every reply tells the server's time, a count of writes and a mark of the making. A call that arrives more than 5 s off
the time that it was sent for is refused by the script: the clock was moved, or the server was frozen meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fyke.errors import TransientError
from fyke.frontiers.redis.connection import Answered, Away, Connection
from fyke.frontiers.redis.scripts import READING, Script

STEP_MS: Final = 5_000
CLASSES: Final = tuple(f"due:{pool}:{number}" for pool in ("text", "render") for number in range(3))
AFTER_A_STEP_BACK: Final = ("delay", "ends", "pe", "nxt", "st", "hold", *CLASSES, "done")
AFTER_A_STEP_FORWARD: Final = ("st", "done")
TRIES: Final = 4
AWAY_S: Final = 1.0

# Made anew where they depend on what a step of the clock changes.
Arguments = Sequence[object] | Callable[[], Sequence[object]]
pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


class Shard:
    """`disturbed` is called when the clock was found moved by more than 5 s, a call was delayed by so much, or the
    server was away: leases look expired then whose holders are alive.
    """

    def __init__(
        self,
        connection: Connection,
        scripts: Mapping[str, Script],
        prefix: str,
        monotonic: Callable[[], float],
        disturbed: Callable[[], None],
    ) -> None:
        self._connection, self._scripts, self.prefix = connection, scripts, prefix
        self._monotonic, self._disturbed = monotonic, disturbed
        self.meta = f"{prefix}meta"
        self.epoch = ""
        self._base: tuple[int, float] | None = None  # server time in ms, and ours, at the last reply
        self._tick, self._mark = 0, ""
        self._damage = ""
        self._failed_at: float | None = None
        self._settling, self._settled = asyncio.Lock(), 0

    @property
    def made(self) -> int:
        """The making that answered last; 0 while none answers. In 48 bits, for it travels in JSON."""
        return 0 if self.was_away or not self._mark else int(self._mark, 16) >> 16

    async def call(self, name: str, arguments: Arguments) -> Any:
        """The result of a script.

        Raises:
            TransientError: the server is away, or the frontier is not (any more) the one that we know.
        """
        return (await self.timed(name, arguments))[1]

    async def timed(self, name: str, arguments: Arguments) -> tuple[int, Any]:
        """The server's time of the call, and its result."""
        for _ in range(TRIES):
            data = pack(arguments() if callable(arguments) else arguments)
            asked_at = self._monotonic()
            expected, known, settled = self.expected(), self._tick, self._settled
            try:
                return await self._send(name, self.epoch, expected, data, known)
            except Away:
                self._failed_at = min(asked_at, asked_at if self._failed_at is None else self._failed_at)
                raise
            except Answered as refusal:
                word, _, rest = str(refusal).partition(" ")
                if word == "STALE_EPOCH":
                    raise self._stale(rest) from None
                await self._settle(int(rest), expected, settled)
        raise TransientError(f"the clock of the frontier at {self._connection.address} is moved again and again")

    def expected(self) -> int:
        """The server's time as far as we know; 0 before the first reply."""
        if self._base is None:
            return 0
        return self._base[0] + round((self._monotonic() - self._base[1]) * 1000)

    @property
    def was_away(self) -> bool:
        """Whether calls have failed for longer than a connection takes to be made again."""
        return self._failed_at is not None and self._monotonic() - self._failed_at > AWAY_S

    def damage(self) -> str:
        """What was found lost since this was asked last; "" where nothing."""
        found, self._damage = self._damage, ""
        return found

    async def make(self, epoch: str, mark: str, shards: int) -> bool:
        """Empty the shard where it is not of this epoch; True where this call did it."""

        async def step(part: str, keys: list[str]) -> str:
            _, result = await self._send("rebuild", self.epoch, 0, pack([epoch, part, mark, shards, keys]), 0)
            return str(result)

        if await step("empty", []) == "mine":
            self.epoch = epoch
            return False
        kept = {f"{self.prefix}{name}".encode() for name in ("meta", "pol", "hold", "nxt", "st", "clock")}
        async for names in self._connection.found(f"{self.prefix}*", self.meta):
            gone = [name.decode() for name in names if name not in kept]
            if gone and await step("delete", gone) == "mine":
                self.epoch = epoch
                return False
        self._mark = mark
        made = await step("make", []) == "made"
        # Who made it again fills it, and needs not be told.
        self.epoch, self._damage = epoch, "" if made else self._damage
        return made

    async def _send(self, name: str, epoch: str, expected: int, data: bytes, known: int) -> tuple[int, Any]:
        raw = await self._connection.run(self._scripts[name], self.meta, epoch, expected, data)
        now, tick, mark, result = _unpack(raw)
        if self.was_away:
            self._disturbed()
        self._failed_at = None
        if self._mark and mark != self._mark:
            self._damage, self._tick = "the frontier was lost and made again", 0
        elif tick < known or (tick == known and name not in READING and name not in ("offer", "rebuild")):
            self._damage, self._tick = f"the frontier went back: {known - tick + 1} write(s) or more are gone", 0
        self._mark, self._tick = mark, max(self._tick, tick)
        self._base = (now, self._monotonic())
        return now, result

    def _stale(self, found: str) -> TransientError:
        where = f"the frontier at {self._connection.address}"
        if not found:
            if self._mark:
                self._damage = "the frontier is empty: everything in it was lost"
            return TransientError(f"{where} is empty; it is made again from the ledger")
        if self.epoch and found.rpartition(":")[0] == self.epoch.rpartition(":")[0]:
            # The ledger began a new epoch, and another process has made the frontier again for it.
            self.epoch = found
            return TransientError(f"{where} was made again for a new epoch of the ledger")
        return TransientError(f"{where} belongs to another ledger or was not made yet")

    async def _settle(self, now: int, expected: int, settled: int) -> None:
        """Set waits right after the clock moved; only then the call goes out again."""
        async with self._settling:
            if self._settled != settled:
                return  # another call of this process did it
            self._settled += 1
            step = now - expected if expected else -1
            if expected and abs(step) > STEP_MS:
                self._disturbed()
            self._base = (now, self._monotonic())
            for part in AFTER_A_STEP_FORWARD if step > 0 else AFTER_A_STEP_BACK:
                cursor: str = "0"
                while True:
                    _, cursor = await self._send("settle", self.epoch, 0, pack([step, part, cursor]), 0)
                    if int(cursor) == 0:
                        break
