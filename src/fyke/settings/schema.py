"""What can be set: one struct a group, each field with its kind, its limits and the text of the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, field

from fyke.policy.outcome import Limits
from fyke.settings.places import FrontierKind, LedgerKind, frontier_kind, ledger_kind, secrets_of, sqlite_path

PREFIX: Final = "FYKE_"


def _kind(kind: str, text: str, **limits: int) -> Meta:
    return Meta(description=text, extra={"kind": kind, "min": 0, **limits})


class Worker(Struct, frozen=True, kw_only=True):
    concurrency: Annotated[int, _kind("number", "Visits at the same time in one worker process.", min=1, max=1000)] = 8
    processes: Annotated[
        int, _kind("number", "Worker processes that `fyke run` and `fyke worker` keep.", min=1, max=256)
    ] = 1
    pool: Annotated[Literal["text", "render"], _kind("choice", "What kind of tasks a worker takes.")] = "text"
    grace: Annotated[
        int, _kind("duration", "After SIGTERM: how long work in hand may go on before it is given back.")
    ] = 25_000


class Attempts(Struct, frozen=True, kw_only=True):
    limit: Annotated[
        int, _kind("number", "Attempts that a missing, empty, misfitting or failing page has.", min=1, max=100)
    ] = 3
    delays: Annotated[
        tuple[int, ...], _kind("durations", "Waits after the first, second, … of them; the last one repeats.", min=1)
    ] = (30_000, 600_000)


class Backoff(Struct, frozen=True, kw_only=True):
    first: Annotated[
        int, _kind("duration", "Wait after the first failure of network or server; doubles each time.", min=1)
    ] = 2_000
    longest: Annotated[int, _kind("duration", "The longest such wait.", min=1)] = 3_600_000


class GiveUp(Struct, frozen=True, kw_only=True):
    after: Annotated[
        int, _kind("duration", "An item that only network or server failures met is dead after this time.", min=1)
    ] = 86_400_000
    blocked: Annotated[int, _kind("duration", "An item that only blocks met is dead after this time.", min=1)] = (
        604_800_000
    )


class Hold(Struct, frozen=True, kw_only=True):
    first: Annotated[int, _kind("duration", "How long a host that blocks us is left alone; doubles.", min=1)] = 600_000
    longest: Annotated[int, _kind("duration", "The longest such time.", min=1)] = 21_600_000


class Reap(Struct, frozen=True, kw_only=True):
    every: Annotated[int, _kind("duration", "How often leases that ran out are looked for.", min=1)] = 10_000


class Reconcile(Struct, frozen=True, kw_only=True):
    every: Annotated[int, _kind("duration", "How often ledger and frontier are compared.", min=1)] = 30_000
    grace: Annotated[int, _kind("duration", "What is due this long and not in the frontier is offered again.")] = 60_000


class Scheduler(Struct, frozen=True, kw_only=True):
    lock: Annotated[
        bool,
        _kind("switch", "Of several schedulers one plans at a time, to spare double work; it is right without, too."),
    ] = True
    lease: Annotated[
        int, _kind("duration", "How long a scheduler that died keeps the others waiting; renewed.", min=100)
    ] = 10_000


class Backpressure(Struct, frozen=True, kw_only=True):
    high: Annotated[
        int, _kind("number", "Waiting tasks from which on walks of lists pause before their next page.", min=1)
    ] = 100_000
    low: Annotated[int, _kind("number", "Waiting tasks below which they go on; less than `backpressure.high`.")] = (
        80_000
    )


class Servers(Struct, frozen=True, kw_only=True):
    wait: Annotated[
        int, _kind("duration", "How long a process that starts waits for its database and Redis to be there.")
    ] = 90_000


class Redis(Struct, frozen=True, kw_only=True):
    namespace: Annotated[
        str, _kind("name", "What the names of all keys in Redis begin with, so that several can share a server.")
    ] = "fyke"
    shards: Annotated[
        int, _kind("number", "Parts of the frontier, for a Redis cluster; fixed when it is made.", min=1, max=64)
    ] = 1
    take_over: Annotated[
        bool, _kind("switch", "Empty a frontier that serves another ledger, and use it; for one command, not for good.")
    ] = False


class KnownFilter(Struct, frozen=True, kw_only=True):
    kind: Annotated[
        Literal["off", "exact", "bloom"],
        _kind("choice", "Remember known entries in Redis, so that the ledger is not asked for each; the same for all."),
    ] = "off"
    planned: Annotated[
        int, _kind("number", "Entries of all listings that it is made for.", min=1, max=10_000_000_000)
    ] = 1_000_000
    one_in: Annotated[
        int, _kind("number", "Bloom: one of so many new entries is taken for known, and asked for.", min=10, max=10**9)
    ] = 1_000
    months: Annotated[
        int, _kind("number", "Months that an entry is remembered after it was last listed.", min=1, max=60)
    ] = 2


class Fetch(Struct, frozen=True, kw_only=True):
    replay: Annotated[
        str | None, _kind("url", "All requests go to this address in plain HTTP (`fyke lab replay`).", secret=1)
    ] = None
    user_agent: Annotated[str, _kind("text", "The User-Agent of all sources that name none; empty: Fyke's own.")] = ""


class Alerts(Struct, frozen=True, kw_only=True):
    webhook: Annotated[
        str | None, _kind("url", "Events go to this address as JSON POSTs; none: to the log only.", secret=1)
    ] = None


class Health(Struct, frozen=True, kw_only=True):
    host: Annotated[
        str, _kind("text", "Where `/healthz` and `/readyz` are answered; 0.0.0.0 for all networks.", least=1)
    ] = "127.0.0.1"
    port: Annotated[
        int, _kind("number", "The port of `/healthz` and `/readyz`, of `fyke run` and each role; 0: none.", max=65_535)
    ] = 0


class Log(Struct, frozen=True, kw_only=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"], _kind("choice", "The least level that is written.")
    ] = "info"


class Lane(Struct, frozen=True, kw_only=True):
    """One host, as `[lanes."www.example.org"]` in the file sets it."""

    delay: Annotated[int | None, _kind("duration", "Time between the starts of two requests.")] = None
    jitter: Annotated[int | None, _kind("duration", "How much longer or shorter that time may be.")] = None
    concurrency: Annotated[int | None, _kind("number", "Requests at the same time.", min=1, max=1000)] = None


class Settings(Struct, frozen=True, kw_only=True):
    """Times in ms, sizes in bytes."""

    ledger: Annotated[str, _kind("ledger", "The database that holds the truth, and your rows.", secret=1)] = (
        "sqlite:///fyke.db"
    )
    frontier: Annotated[
        str, _kind("frontier", "What hands out work: `sql` is tables beside the ledger; or a Redis.", secret=1)
    ] = "sql"
    sources: Annotated[str, _kind("text", "The folder of source files.", least=1)] = "sources"
    archive: Annotated[
        str | None, _kind("archive", "Where bodies of pages are kept; they are not yet: it comes in a later release.")
    ] = None
    lease: Annotated[int, _kind("duration", "How long a task is in hand before it counts as left; renewed.", min=1)] = (
        30_000
    )
    blocks_to_pause: Annotated[int, _kind("number", "Blocks in a row that pause a source.", min=1, max=1000)] = 5
    worker: Worker = field(default_factory=Worker)
    attempts: Attempts = field(default_factory=Attempts)
    backoff: Backoff = field(default_factory=Backoff)
    give_up: GiveUp = field(default_factory=GiveUp)
    hold: Hold = field(default_factory=Hold)
    reap: Reap = field(default_factory=Reap)
    reconcile: Reconcile = field(default_factory=Reconcile)
    scheduler: Scheduler = field(default_factory=Scheduler)
    backpressure: Backpressure = field(default_factory=Backpressure)
    servers: Servers = field(default_factory=Servers)
    redis: Redis = field(default_factory=Redis)
    known_filter: KnownFilter = field(default_factory=KnownFilter)
    fetch: Fetch = field(default_factory=Fetch)
    alerts: Alerts = field(default_factory=Alerts)
    health: Health = field(default_factory=Health)
    log: Log = field(default_factory=Log)
    lanes: dict[str, Lane] = field(default_factory=dict)
    """By host: what holds there instead of the strictest word of its sources. In the file only."""

    @property
    def ledger_kind(self) -> LedgerKind:
        return ledger_kind(self.ledger)

    @property
    def frontier_kind(self) -> FrontierKind:
        return frontier_kind(self.frontier)

    @property
    def ledger_path(self) -> Path | None:
        """The SQLite file; None where the ledger is on a server."""
        return sqlite_path(self.ledger) if self.ledger_kind == "sqlite" else None

    @property
    def limits(self) -> Limits:
        """How much is tried before an item dies, as `policy.outcome` reads it."""
        return Limits(
            attempts=self.attempts.limit,
            attempt_delays=self.attempts.delays,
            backoff_base=self.backoff.first,
            backoff_cap=self.backoff.longest,
            give_up_after=self.give_up.after,
            give_up_blocked_after=self.give_up.blocked,
            hold_first=self.hold.first,
            hold_cap=self.hold.longest,
        )


class Setting(Struct, frozen=True):
    """One leaf of `Settings`: its dotted name, what kind of value it takes, and its default."""

    name: str
    kind: str
    text: str
    default: Any
    optional: bool
    limits: dict[str, Any]
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def secret(self) -> bool:
        return bool(self.limits.get("secret"))


def all_settings(struct: type[Struct] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Every setting, in the order of the struct."""
    for name, hint in get_type_hints(struct, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            yield from all_settings(hint, f"{prefix}{name}.")
            continue
        if name == "lanes":
            continue
        kind, meta = get_args(hint)
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        limits = dict(meta.extra)
        optional = type(None) in get_args(kind)
        default = getattr(struct(), name)
        yield Setting(prefix + name, limits.pop("kind"), meta.description, default, optional, limits, choices)


def value_of(settings: Struct, name: str) -> Any:
    """The value of a dotted name."""
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def hidden(settings: Settings, text: str) -> str:
    """The text with what opens doors masked: passwords and secret paths of all addresses in the settings."""
    for setting in all_settings():
        value = value_of(settings, setting.name) if setting.secret else None
        for secret in secrets_of(value) if value else ():
            text = text.replace(secret, "***")
    return text
