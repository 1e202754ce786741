"""What a chaos run is asked to do: the faults by name, what each needs, and which can be had here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from fyke.errors import UsageError, nearest

FrontierName: TypeAlias = Literal["redis", "sql"]
LedgerName: TypeAlias = Literal["sqlite", "postgres", "mariadb"]

# What of the servers a fault needs: ours to kill, or reached in a way that a relay can stand in.
Needs: TypeAlias = Literal["", "our redis", "redis", "our database", "database", "relay", "proxies"]


class Kind(Struct, frozen=True):
    """A fault: what it is done to (one at a time each, so that two do not undo each other), what it needs, its text.

    `again`: whether tasks in hand may be fetched once more after it. `rest`: seconds without a fault on its target.
    """

    target: str
    needs: Needs
    text: str
    again: bool = False
    rest: float = 0.0


REST_S: Final = 10.0
FAULTS: Final[dict[str, Kind]] = {
    "kill": Kind("workers", "", "a worker process gets SIGKILL", again=True),
    "kill-scheduler": Kind("schedulers", "", "a scheduler gets SIGKILL"),
    "stop": Kind("processes", "", "a worker or scheduler gets SIGSTOP, and SIGCONT when its lease is over", again=True),
    "term": Kind("processes", "", "a worker or scheduler gets SIGTERM", again=True),
    "redis-kill": Kind("redis", "our redis", "Redis gets SIGKILL and is started again", again=True),
    "redis-restart": Kind("redis", "our redis", "Redis is ended in good order and started again", again=True),
    "redis-cut": Kind(
        "redis",
        "our redis",
        "Redis is killed, and the end of its file is cut off before it starts again",
        again=True,
    ),
    "redis-flush": Kind("redis", "redis", "Redis loses all keys (on your own server: those of this run)", again=True),
    "redis-stream": Kind("redis", "redis", "the streams of tasks in hand are deleted", again=True),
    "redis-freeze": Kind("redis", "redis", "Redis answers nothing for a while", again=True, rest=REST_S),
    "database-kill": Kind("database", "our database", "the database gets SIGKILL and is started again", again=True),
    "database-away": Kind("database", "database", "the database is down for a while", again=True, rest=REST_S),
    "cut": Kind("network", "relay", "all connections to Redis and the database are reset"),
    "swallow": Kind("network", "relay", "one reply of Redis or the database never arrives", again=True),
    "burst": Kind("site", "", "the site answers 503 to everything for a few seconds"),
    "poison": Kind("site", "", "2 % of the items have a page that cannot be read"),
    "proxies": Kind("network", "proxies", "all proxies are down for a while"),
}
POISON_SHARE: Final = 0.02


class ChaosConfig(Struct, frozen=True, kw_only=True):
    """Times in seconds. `faults` empty: all that can be had. An address: your own server instead of ours."""

    folder: Path
    seed: int = 1
    items: int = 2_000
    workers: int = 3
    schedulers: int = 2
    concurrency: int = 8
    seconds: float = 60.0
    every: float = 3.0
    outage: float = 8.0
    settle: float = 180.0
    latency_ms: float = 20.0
    frontier: FrontierName = "redis"
    ledger: LedgerName = "postgres"
    redis_url: str = ""
    database_url: str = ""
    faults: tuple[str, ...] = ()


def chosen_faults(config: ChaosConfig) -> tuple[str, ...]:
    """The faults of this run, each of which can be had.

    Raises:
        UsageError: an unknown name, or one that these servers do not allow.
    """
    for name in config.faults:
        if name not in FAULTS:
            raise UsageError(
                f"there is no fault '{name}'", field="--faults", hint=nearest(name, FAULTS) or ", ".join(FAULTS)
            )
        reason = why_not(name, config)
        if reason:
            raise UsageError(f"{name}: {reason}", field="--faults", hint="leave it out")
    return config.faults or tuple(name for name in FAULTS if not why_not(name, config))


def why_not(name: str, config: ChaosConfig) -> str:
    """Why a fault cannot be had with these servers; "" where it can."""
    redis, database = has_redis(config), config.ledger != "sqlite"
    match FAULTS[name].needs:
        case "proxies":
            return "there are no pools of proxies in this version"
        case "our redis" | "redis" if not redis:
            return "the frontier is not Redis (--frontier redis)"
        case "our redis" if config.redis_url:
            return "it needs a Redis that chaos has started itself"
        case "redis" if not is_plain(config.redis_url):
            return "it needs one Redis without TLS"
        case "our database" | "database" if not database:
            return "the ledger is a file (--ledger postgres or mariadb)"
        case "our database" if config.database_url:
            return "it needs a database that chaos has started itself"
        case "relay" if not database and not (redis and is_plain(config.redis_url)):
            return "there is no connection to a server that a relay could stand in"
    return ""


def in_hand_at(faults: Mapping[str, int], config: ChaosConfig) -> int:
    """How many tasks were in hand at these faults, at most: those may be fetched once more.

    One worker holds more than it has slots, for results wait for their commit while the next pages are fetched. All
    together hold no more than the site's host has places, and any one of them may have them all.
    """
    return places(config) * sum(count for name, count in faults.items() if FAULTS[name].again)


def places(config: ChaosConfig) -> int:
    """How many visits the site's host is given at once: enough for all slots of all workers."""
    return config.workers * config.concurrency


def has_redis(config: ChaosConfig) -> bool:
    return config.frontier == "redis"


def is_plain(redis_url: str) -> bool:
    """Whether that is one server whose connections a relay can pass on; "" is a server of ours."""
    return not redis_url or urlsplit(redis_url).scheme == "redis"


def ledger_of(database_url: str) -> LedgerName:
    """Which ledger an address is of.

    Raises:
        UsageError: it is no server's.
    """
    scheme = urlsplit(database_url).scheme
    names: dict[str, LedgerName] = {"postgresql": "postgres", "postgres": "postgres"}
    names |= {"mysql": "mariadb", "mariadb": "mariadb"}
    if scheme not in names:
        raise UsageError(f"'{scheme}' is no database server", field="--database", hint="postgresql:// or mysql://")
    return names[scheme]
