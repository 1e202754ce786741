"""What is looked at before a frontier is used: the server, its settings, and what is there already."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from fyke.errors import FykeError, LedgerClosed, UsageError
from fyke.frontiers.redis.connection import Away, Connection
from fyke.frontiers.redis.shard import Shard

log = logging.getLogger("fyke.frontier")

FLOOR: Final = (6, 2)
NEARLY_FULL: Final = 0.8
NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_SHARDS: Final = 64
MORE_MEMORY: Final = (
    "raise maxmemory of the server (CONFIG SET maxmemory 2gb, and in its file), remove what else is in it, or let the"
    " workers empty the backlog"
)


class Check(Struct, frozen=True):
    """One thing that was looked at. `hint`: what to change."""

    name: str
    level: Literal["ok", "warn", "fail"]
    text: str
    hint: str = ""


def check_names(namespace: str, shards: int) -> None:
    if not NAMESPACE.fullmatch(namespace):
        hint = "1 to 64 of the letters A-Z, a-z, digits, . _ -"
        raise UsageError(f"not a namespace: {namespace!r}", field="redis.namespace", hint=hint)
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"not a number of shards: {shards}", field="redis.shards", hint=f"1 to {MOST_SHARDS}")


async def read_epochs(connection: Connection, shards: Sequence[Shard]) -> list[str]:
    """Whose frontier is there, by shard; "" where none is.

    Raises:
        UsageError: it was made with another number of shards.
    """
    epochs = []
    for shard in shards:
        epoch, made = await connection.ask("HMGET", shard.meta, "epoch", "shards", key=shard.meta)
        if made is not None and int(made) != len(shards):
            raise UsageError(
                f"the frontier was made with {int(made)} shard(s), the settings say {len(shards)}",
                field="redis.shards",
                hint=f"set redis.shards = {int(made)}, or choose another redis.namespace",
            )
        epochs.append((epoch or b"").decode())
    return epochs


def refuse_foreign(epochs: Sequence[str], ledger_id: str, namespace: str) -> None:
    """
    Raises:
        LedgerClosed: a part of the frontier was made for another ledger.
    """
    for owner in sorted({epoch.rpartition(":")[0] for epoch in epochs if epoch}):
        if owner != ledger_id:
            raise LedgerClosed(
                f"the namespace '{namespace}' of this Redis serves ledger {owner[:8]}, and yours is {ledger_id[:8]}",
                field="redis.namespace",
                hint="is it the right ledger? else choose another redis.namespace;"
                " if the other ledger is given up: `fyke --set redis.take_over=true migrate`",
            )


async def check_start(connection: Connection, metas: Sequence[str]) -> None:
    """
    Raises:
        UsageError: a server would lose or evict tasks; names the setting.
    """
    async for info in server_infos(connection, metas):
        for check in judge(info):
            if check.level == "fail":
                raise UsageError(check.text, field="frontier", hint=check.hint)
            if check.level == "warn":
                log.warning("the frontier at %s: %s (%s)", connection.address, check.text, check.hint)


async def server_infos(connection: Connection, metas: Sequence[str]) -> AsyncIterator[dict[str, str]]:
    """What each server that holds a shard says of itself; empty where our user may not ask."""
    told: set[str] = set()
    for meta in metas:
        if not await connection.may("INFO", "server", key=meta):
            yield {}
            return
        info = await connection.info(meta)
        if info.get("run_id", "") not in told:
            told.add(info.get("run_id", ""))
            yield info


def judge(info: dict[str, str]) -> list[Check]:
    """What one server's INFO says."""
    if not info:
        text = "this user may not ask INFO: version, eviction and persistence are not known"
        return [Check("server", "warn", text, "allow it: ACL SETUSER … +info")]
    return [_version(info), _role(info), _eviction(info), _memory(info), _persistence(info)]


def _version(info: dict[str, str]) -> Check:
    version = info.get("redis_version", "0")
    product = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {version}"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < FLOOR:
        return Check("server", "fail", f"{product} is too old", "Redis 6.2 or later, or Valkey")
    return Check("server", "ok", product)


def _role(info: dict[str, str]) -> Check:
    if info.get("role") != "master":
        return Check("role", "fail", "this server is a replica: it takes no writes", "give the master's address")
    return Check("role", "ok", f"master with {info.get('connected_slaves', '0')} replica(s)")


def _eviction(info: dict[str, str]) -> Check:
    policy = info.get("maxmemory_policy", "")
    if policy == "noeviction":
        return Check("eviction", "ok", "maxmemory-policy is noeviction")
    text = f"maxmemory-policy is {policy or 'not known'}: the server would throw tasks away when its memory is full"
    return Check("eviction", "fail" if policy else "warn", text, "set maxmemory-policy to noeviction")


def _memory(info: dict[str, str]) -> Check:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    text = f"{used / 2**20:.1f} MB of memory used"
    if not limit:
        return Check("memory", "ok", f"{text}, no maxmemory set")
    text, share = f"{text} of {limit / 2**20:.1f} MB (maxmemory)", _share(info)
    if share >= 1:
        # No reason to refuse it at the start: workers that take tasks out make room.
        return Check("memory", "warn", f"{text}: full, so nothing new is offered", MORE_MEMORY)
    if share > NEARLY_FULL:
        return Check("memory", "warn", text, f"when it is full nothing new is offered: {MORE_MEMORY}")
    return Check("memory", "ok", text)


def _persistence(info: dict[str, str]) -> Check:
    if info.get("aof_enabled") == "0":
        text = "the server keeps no append-only file: after a restart the frontier is made again from the ledger"
        return Check("persistence", "warn", text, "set appendonly to yes, on a disk that outlives the server")
    if info.get("aof_last_write_status") == "err":
        return Check("persistence", "fail", "the server cannot write its append-only file", "look at its disk and log")
    return Check("persistence", "ok", "append-only file")


async def memory_share(connection: Connection, metas: Sequence[str]) -> float:
    """The share in use of the memory that the fullest server may use; 0 where none has a limit, or we may not ask."""
    shares = [0.0]
    for meta in metas if connection.address.kind == "cluster" else metas[:1]:
        try:
            shares.append(_share(await connection.info(meta, "memory")))
        except Away:
            raise
        except FykeError:
            # No leave to ask; that is said by `fyke doctor`.
            continue
    return max(shares)


def _share(info: dict[str, str]) -> float:
    used, limit = (int(info.get(name, 0)) for name in ("used_memory", "maxmemory"))
    # What the server keeps for replicas and its append-only file does not count, by its own rule.
    return (used - int(info.get("mem_not_counted_for_evict", 0))) / limit if limit else 0.0


async def read_runs(connection: Connection, metas: Sequence[str]) -> set[str]:
    """The running servers that hold the shards; empty where our user may not ask."""
    found = set()
    for meta in metas:
        if not await connection.may("INFO", "server", key=meta):
            return set()
        info = await connection.info(meta, "server")
        found.add(info.get("run_id", ""))
    return found
