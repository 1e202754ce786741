"""The ways that are compared: what each is, which program plays it, what it needs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

PRODUCERS: Final = 2


class Mode(Struct, frozen=True):
    """A way of "once". `nodes` do everything each; or `producers` list and `workers` fetch and store."""

    name: str
    title: str
    module: str  # of the article's program; "" for Fyke's own commands
    node: str = ""
    producer: str = ""
    worker: str = ""
    redis: bool = False
    postgres: bool = False


MODES: Final = (
    Mode("file", "a file of known ids on each machine", "fyke.lab.modes.local", node="file"),
    Mode("sqlite", "SQLite: look, then insert", "fyke.lab.modes.local", node="sqlite"),
    Mode("unique-key", "a unique key in the database alone", "fyke.lab.modes.unique_key", node="node", postgres=True),
    Mode(
        "redis-set",
        "Redis: SADD, then RPUSH",
        "fyke.lab.modes.redis_list",
        producer="produce",
        worker="work",
        redis=True,
        postgres=True,
    ),
    Mode(
        "redis-lua",
        "Redis: set and list in one Lua script",
        "fyke.lab.modes.redis_list",
        producer="produce_script",
        worker="work",
        redis=True,
        postgres=True,
    ),
    Mode(
        "redis-stream",
        "Redis: set, Lua, Stream and group, unique key (the article's end state)",
        "fyke.lab.modes.redis_stream",
        producer="produce",
        worker="consume",
        redis=True,
        postgres=True,
    ),
    Mode("fyke-sql", "Fyke, PostgreSQL alone", "", postgres=True),
    Mode("fyke-redis", "Fyke, Redis and PostgreSQL", "", redis=True, postgres=True),
)
