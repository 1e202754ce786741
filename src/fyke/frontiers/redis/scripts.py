"""The Lua of the frontier, put together once: each operation is its own file behind the pieces that it needs.

Keeps P1 and P4: what belongs together is one script, which Redis runs alone.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Final

from msgspec import Struct

from fyke.model import LanePolicy

SCHEMA: Final = 1
# The server's own clock, in whole ms.
SERVER_CLOCK: Final = "(function() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end)()"

_DEFAULT = LanePolicy("")
CONSTANTS: Final[dict[str, int]] = {
    "GAP": _DEFAULT.gap,
    "JITTER": _DEFAULT.jitter,
    "LIMIT": _DEFAULT.concurrency,
    "SCHEMA": SCHEMA,
    "SMALL_STEP": 1_000,
    "STEP": 5_000,
    "WAKES": 4,
    "FULL_WAIT": 1_000,
    "LONGEST_WAIT": 1_000,
    "HORIZON": 1_000,
    "SAME_START": 100,
    "PROMOTE": 100,
    "VISITS": 400,
    "LANES_A_ROUND": 64,
    "ROUNDS": 100,
    "SETTLE": 500,
    "IDLE": 3_600_000,
}

READING: Final = ("held", "known", "keys", "view", "stats")
_LANES = ("lanes", "leases")
# What stands before an operation besides the head; reading ones write nothing, so they need no leave to.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("finish", "retry", "release", "extend", "reap", "hold", "drop", "configure", "leave", "abroad", "settle"),
        _LANES,
    ),
    "offer": (*_LANES, "places"),
    "lease": (*_LANES, "promote"),
    "begin": (*_LANES, "reserve"),
    "permit": (*_LANES, "reserve"),
    "visit": (*_LANES, "reserve"),
    "verify": (*_LANES, "places"),
    "rebuild": (),
    **dict.fromkeys(READING, _LANES),
    "known": (*_LANES, "places"),
}


class Script(Struct, frozen=True):
    name: str
    text: str
    sha: str


def load_scripts(clock: str = SERVER_CLOCK) -> dict[str, Script]:
    """All operations by name. `clock`: the Lua expression that tells the time; tests may give one that stands still."""
    folder = resources.files("fyke.frontiers.redis") / "lua"
    pieces = {
        path.name.removesuffix(".lua"): path.read_text(encoding="utf-8")
        for path in folder.iterdir()
        if path.name.endswith(".lua")
    }
    return {name: _put_together(name, pieces, clock) for name in EXTRAS}


def _put_together(name: str, pieces: dict[str, str], clock: str) -> Script:
    parts = [pieces["head"]]
    if name != "rebuild":
        parts.append(pieces["epoch"])
    if name not in ("rebuild", "settle"):
        parts.append(pieces["clock"])
    parts.append("local args = cmsgpack.unpack(ARGV[3])\n")
    # At full memory an offer is refused whole by its first write, and every other script passes.
    if name not in (*READING, "offer"):
        parts.append(pieces["write"])
        if name != "rebuild":
            parts.append(pieces["tick"])
    parts += [pieces[extra] for extra in EXTRAS[name]]
    text = "".join([*parts, pieces[name]]).replace("$TICK", pieces["tick"].strip()).replace("$NOW", clock)
    for constant in sorted(CONSTANTS, key=len, reverse=True):
        text = text.replace(f"${constant}", str(CONSTANTS[constant]))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
