"""What `fyke doctor` looks at: settings, servers and this machine. Changes nothing, and one fault hides no other."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct

from fyke.app.overview import POOLS, look
from fyke.app.stores import back_end, open_clocked, open_desk
from fyke.db.connection import Connection, Database
from fyke.db.migrate import newest_schema, schema_of
from fyke.errors import FykeError, LedgerClosed, UsageError
from fyke.pipeline.heart import PROCESS
from fyke.settings import Settings, hidden, masked

FILES_A_VISIT: Final = 4
FILES_BESIDE: Final = 128
MANY_VISITS: Final = 64
FILES_FOR_MANY: Final = 65_535
DISK_LITTLE: Final = 5_000_000_000
DISK_NONE: Final = 500_000_000
CLOCK_WARN_MS: Final = 2_000
CLOCK_FAIL_MS: Final = 60_000
VERSIONS: Final = {
    "sqlite": "SELECT sqlite_version()",
    "postgres": "SELECT current_setting('server_version')",
    "mysql": "SELECT version()",
}
# What each database must say of itself: name, question, good answers (None: any), and what to do otherwise.
QUESTIONS: Final[dict[str, tuple[tuple[str, str, str, str], ...]]] = {
    "sqlite": (),
    "postgres": (
        ("charset", "SELECT current_setting('server_encoding')", "UTF8", "create the database with ENCODING 'UTF8'"),
        ("fsync", "SELECT current_setting('fsync')", "on", "a crash of the server loses what it confirmed: fsync = on"),
        (
            "full_page_writes",
            "SELECT current_setting('full_page_writes')",
            "on",
            "a power failure damages the database: full_page_writes = on",
        ),
    ),
    "mysql": (
        ("charset", "SELECT @@character_set_connection", "utf8mb4", "the connection must speak utf8mb4"),
        (
            "innodb_flush_log_at_trx_commit",
            "SELECT @@innodb_flush_log_at_trx_commit",
            "1",
            "a crash of the server loses what it confirmed: innodb_flush_log_at_trx_commit = 1",
        ),
        ("innodb_doublewrite", "SELECT @@innodb_doublewrite", "ON|1", "set innodb_doublewrite = ON"),
    ),
}


class Check(Struct, frozen=True):
    """One thing that was looked at. `hint`: what to change."""

    name: str
    level: Literal["ok", "warn", "fail"]
    text: str
    hint: str = ""


async def examine(settings: Settings) -> AsyncIterator[Check]:
    """All checks, each as soon as it is known."""
    for check in (*settings_checks(settings), *machine_checks(settings)):
        yield check
    reached = True
    for part in (_ledger_checks, _redis_checks):
        try:
            for check in await part(settings):
                yield check
        except FykeError as error:
            reached = False
            yield _fault(settings, "ledger" if part is _ledger_checks else "frontier", error)
    if not reached:
        return
    try:
        for check in await _cluster_checks(settings):
            yield check
    except LedgerClosed as error:
        # Whom the frontier serves was said among its own checks.
        if settings.frontier_kind == "sql":
            yield _fault(settings, "cluster", error)
    except FykeError as error:
        yield _fault(settings, "cluster", error)


def _fault(settings: Settings, name: str, error: FykeError) -> Check:
    """What keeps from looking further, said once: the line begins with what it is about, and ends in one hint."""
    text = (error.message if isinstance(error, UsageError) else str(error)).removeprefix(f"the {name} at ")
    hint = (error.hint or "") if isinstance(error, UsageError) else "is it running, and is the address right?"
    return Check(name, "fail", hidden(settings, text), hidden(settings, hint))


# --- This machine ---


def settings_checks(settings: Settings) -> list[Check]:
    """Places, and how we introduce ourselves to sites."""
    where = f"ledger {masked(settings.ledger)}, frontier {masked(settings.frontier)}"
    found = [Check("settings", "ok", where)]
    if settings.ledger_kind == "sqlite" and settings.frontier_kind == "redis":
        hint = "a ledger on PostgreSQL or MySQL, or the frontier `sql`"
        found.append(Check("settings", "warn", "a SQLite ledger serves one machine, with Redis or without it", hint))
    agent = settings.fetch.user_agent
    if agent and not re.search(r"https?://|@", agent):
        hint = "add an address where a site's owner can reach you: fetch.user_agent = 'name (+https://…)'"
        found.append(Check("user agent", "warn", f"{agent!r} does not say who asks", hint))
    else:
        found.append(Check("user agent", "ok", agent or "Fyke's own"))
    if settings.lease < 3 * 1_000:
        text = "a lease is shorter than 3 s: a busy machine may lose tasks that it works on"
        found.append(Check("lease", "warn", text, "lease = '30s'"))
    return found


def machine_checks(settings: Settings) -> list[Check]:
    """Open files, disk, time zone."""
    found = [_files(settings.worker.concurrency), _disk(settings)]
    try:
        ZoneInfo("Asia/Shanghai")
    except ZoneInfoNotFoundError:
        found.append(Check("time zone", "fail", "this machine knows no time zones", "pip install tzdata"))
    else:
        offset = time.strftime("%z")
        found.append(Check("time zone", "ok", f"{time.tzname[0]} ({offset}) here; each schedule names its own"))
    return found


def _files(visits: int) -> Check:
    if sys.platform == "win32":
        return Check("open files", "ok", "not limited on this system")
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Check("open files", "ok", "not limited")
    needed = FILES_BESIDE + FILES_A_VISIT * visits
    text = f"{soft} for each process, and {visits} visits at once (worker.concurrency) may need {needed}"
    hint = f"ulimit -n {max(FILES_FOR_MANY, needed)}, LimitNOFILE= of systemd, or `ulimits: nofile:` of compose"
    if soft < needed:
        return Check("open files", "fail", text, hint)
    return Check("open files", "warn" if visits >= MANY_VISITS and soft < FILES_FOR_MANY else "ok", text, hint)


def _disk(settings: Settings) -> Check:
    folder = (settings.ledger_path or Path()).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    level: Literal["ok", "warn", "fail"] = "fail" if free < DISK_NONE else "warn" if free < DISK_LITTLE else "ok"
    hint = "a full disk stops the ledger: make room, or move it with `fyke ledger copy`"
    return Check("disk", level, f"{free / 1e9:.1f} GB free at {folder}", "" if level == "ok" else hint)


# --- Servers ---


async def _ledger_checks(settings: Settings) -> list[Check]:
    path = settings.ledger_path
    if path is not None and not path.exists():
        return [Check("ledger", "warn", f"there is none at {path} yet", "`fyke run` or `fyke migrate` makes it")]
    began = time.monotonic()
    async with open_clocked(settings) as (database, clock):
        kind = database.dialect
        version = str((await _ask(database, VERSIONS[kind]))[0])
        took = (time.monotonic() - began) * 1000
        found = [Check("ledger", "ok", f"{kind} {version} answers, {took:.0f} ms with the connection")]
        schema = await database.read(schema_of)
        if not schema:
            found.append(Check("schema", "warn", "there are no tables yet", "`fyke migrate` makes them"))
        elif schema != newest_schema():
            text = f"{schema}, and this release has {newest_schema()}"
            found.append(Check("schema", "warn", text, "`fyke migrate`, or start any process of this release"))
        else:
            found.append(Check("schema", "ok", schema))
        for name, question, good, hint in QUESTIONS[kind]:
            answer = str((await _ask(database, question))[0])
            level: Literal["ok", "fail"] = "ok" if re.fullmatch(good, answer, re.IGNORECASE) else "fail"
            found.append(Check(name, level, answer, "" if level == "ok" else hint))
        found.append(_clock("clock", clock.now() - time.time_ns() // 1_000_000, "the ledger's server"))
    return found


async def _ask(database: Database, question: str) -> Sequence[Any]:
    def call(connection: Connection) -> Sequence[Any]:
        row: Sequence[Any] = connection.execute(question).fetchone()
        return row

    return await database.read(call)


def _clock(name: str, off_ms: int, whose: str) -> Check:
    """`off_ms`: how much later it is there than here."""
    text = f"{whose} is {abs(off_ms) / 1000:.1f} s {'ahead of' if off_ms > 0 else 'behind'} this machine"
    if abs(off_ms) < CLOCK_WARN_MS:
        return Check(name, "ok", text)
    hint = "let NTP set both; what is due is decided by the servers' clocks"
    return Check(name, "fail" if abs(off_ms) >= CLOCK_FAIL_MS else "warn", text, hint)


async def _redis_checks(settings: Settings) -> list[Check]:
    if settings.frontier_kind != "redis":
        return []
    checks = back_end("fyke.frontiers.redis.checks", "redis")
    found = await checks.examine(
        settings.frontier,
        namespace=settings.redis.namespace,
        shards=settings.redis.shards,
        ledger_id=await _ledger_id(settings),
        known_filter=settings.known_filter.kind != "off",
    )
    return [Check(one.name, one.level, one.text, one.hint) for one in found]


async def _ledger_id(settings: Settings) -> str:
    """Whose ledger this is; "" where that cannot be asked, which is said elsewhere."""
    if settings.ledger_path is not None and not settings.ledger_path.exists():
        return ""
    try:
        async with open_clocked(settings) as (database, _):
            if not await database.read(schema_of):
                return ""
            return str((await _ask(database, "SELECT value FROM meta WHERE name = 'ledger_id'"))[0])
    except FykeError:
        return ""


# --- Who works, and what waits for nobody ---


async def _cluster_checks(settings: Settings) -> list[Check]:
    if settings.ledger_path is not None and not settings.ledger_path.exists():
        return []
    async with open_desk(settings) as desk:
        found, sources = await look(desk), await desk.ledger.sources()
    known = found.known_filter
    checks = [Check("known filter", "ok", known.text)] if known is not None else []
    workers = [row for row in found.workers if row.pool in POOLS]
    # With no worker at all somebody is just looking; with some, one kind was forgotten.
    level: Literal["warn", "fail"] = "fail" if workers else "warn"
    checks += [
        Check("pool", level, f"{count} task(s) wait in pool {pool}, and no worker of it runs", _pool_hint(pool))
        for pool, count in found.idle_pools.items()
    ]
    planning = [row for row in found.workers if row.pool == "scheduler"]
    checks.append(
        Check("processes", "ok", f"{len(workers)} worker(s), {len(planning)} scheduler(s) in the last minute")
    )
    for row in found.workers:
        off = row.stage.get(PROCESS, {}).get("clock_off", 0)
        if abs(off) >= CLOCK_WARN_MS:
            hint = f"let NTP set the clock of {row.host}; what is due is decided by the servers' clocks"
            text = f"{row.host} (pid {row.pid}) is {abs(off) / 1000:.1f} s {'ahead' if off > 0 else 'behind'}"
            checks.append(Check("clock", "warn", text, hint))
    rude = [row.source.id for row in sources if _ignores_robots(row.source.text)]
    if rude:
        hint = "leave it out where you have no leave of the site"
        checks.append(Check("robots", "warn", f"robots.txt is not asked for {', '.join(rude)}", hint))
    else:
        checks.append(Check("robots", "ok", "robots.txt is respected by all sources"))
    return [*checks, *(Check("cluster", "warn", note) for note in found.notes if "in pool" not in note)]


def _ignores_robots(text: str) -> bool:
    fetch = msgspec.json.decode(text).get("fetch")
    return isinstance(fetch, dict) and fetch.get("robots") == "ignore"


def _pool_hint(pool: str) -> str:
    return f"`fyke worker --pool {pool}` on a machine that can"
