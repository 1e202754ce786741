"""Changes of lanes' counters, gathered so that a batch writes each lane once, in order of id."""

from __future__ import annotations

from operator import itemgetter
from types import MappingProxyType

from fyke.db.connection import Connection
from fyke.frontiers import sql_statements as sql
from fyke.frontiers.sql_lane_locks import Locked

READY, DELAYED, LEASED = 0, 1, 2
NO_CLASS = 3
MOVED = ("best_text", "best_render", "ready_text", "ready_render", "delayed", "leased", "permits")
FINISHED = ("leased", "permits", "acked", "buried")
MOVES, FINISHES = itemgetter(*MOVED), itemgetter(*FINISHED)
NOTHING = MappingProxyType(dict.fromkeys((*MOVED, *FINISHED), 0) | {"best_text": NO_CLASS, "best_render": NO_CLASS})


class LaneMoves:
    """What a call does to lanes. On a server a lane that the call has not locked (its task went there just before)
    makes the call begin anew, and a lane where nothing was ready wakes those that wait."""

    def __init__(self, connection: Connection, locked: Locked) -> None:
        self._connection, self._locked = connection, locked
        self._lanes: dict[int, dict[str, int]] = {}
        self._wakes = self._finishes = False

    def _lane(self, lane_id: int) -> dict[str, int]:
        found = self._lanes.get(lane_id)
        if found is None:
            if self._locked is not None and lane_id not in self._locked:
                self._connection.repeat(f"lane {lane_id} was not locked")
            found = self._lanes[lane_id] = NOTHING.copy()
        return found

    def enter(self, lane_id: int, pool: str, priority: int) -> None:
        """A task became ready."""
        lane = self._lane(lane_id)
        lane[f"ready_{pool}"] += 1
        lane[f"best_{pool}"] = min(lane[f"best_{pool}"], priority)
        if self._locked is not None:
            self._wakes = self._wakes or not getattr(self._locked[lane_id], f"ready_{pool}")

    def leave(self, lane_id: int, pool: str, state: int) -> None:
        """A task left its place."""
        self._lane(lane_id)[f"ready_{pool}" if state == READY else "delayed" if state == DELAYED else "leased"] -= 1

    def delay(self, lane_id: int) -> None:
        self._lane(lane_id)["delayed"] += 1

    def keep_place(self, lane_id: int) -> None:
        self._lane(lane_id)["permits"] += 1

    def end_permit(self, lane_id: int) -> None:
        self._lane(lane_id)["permits"] -= 1

    def finish(self, lane_id: int, counter: str) -> None:
        """A leased task was finished for good; a call that finishes some does nothing else."""
        self._lane(lane_id)[counter] += 1
        self._finishes = True

    def write(self) -> None:
        if self._lanes:
            text, pick = (sql.LANE_FINISHED, FINISHES) if self._finishes else (sql.LANE_MOVE, MOVES)
            rows = [(*pick(self._lanes[lane_id]), lane_id) for lane_id in sorted(self._lanes)]
            self._connection.executemany(text, rows)
        if self._wakes:
            self._connection.notify()
