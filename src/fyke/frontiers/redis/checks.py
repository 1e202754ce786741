"""What `fyke doctor` says of a Redis frontier: the server, our rights on it, and a task that is sent through it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from random import Random
from typing import Final

from fyke.errors import FykeError, LedgerClosed
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.opening import MORE_MEMORY, Check, check_names, judge, refuse_foreign, server_infos
from fyke.frontiers.redis.probe import ProbeFailed, probe

# Every command that a script or the client gives, with words that do no harm on a key of the probe's own.
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    *(("HSET", "h", "f", "1"), ("HGET", "h", "f"), ("HMGET", "h", "f"), ("HINCRBY", "h", "f", "1"), ("HLEN", "h")),
    *(("HEXISTS", "h", "f"), ("HSCAN", "h", "0"), ("HDEL", "h", "f"), ("ZADD", "z", "1", "m"), ("ZCARD", "z")),
    *(("ZSCORE", "z", "m"), ("ZMSCORE", "z", "m"), ("ZRANGE", "z", "0", "0"), ("ZRANGEBYSCORE", "z", "0", "1")),
    *(("ZREVRANGEBYSCORE", "z", "1", "0"), ("ZSCAN", "z", "0"), ("ZREM", "z", "m"), ("SADD", "s", "m")),
    *(("SREM", "s", "m"), ("EXISTS", "s"), ("RPUSH", "w", "1"), ("LLEN", "w"), ("BLPOP", "w", "0.01")),
    *(("XGROUP", "CREATE", "x", "w", "0", "MKSTREAM"), ("XADD", "x", "1-1", "k", "v")),
    *(("XREADGROUP", "GROUP", "w", "probe", "COUNT", "1", "STREAMS", "x", ">"), ("XPENDING", "x", "w")),
    *(("XCLAIM", "x", "w", "probe", "0", "1-1", "JUSTID"), ("XRANGE", "x", "-", "+"), ("XINFO", "GROUPS", "x")),
    *(("XACK", "x", "w", "1-1"), ("XDEL", "x", "1-1"), ("DEL", "x"), ("UNLINK", "h")),
    *(("GET", "g"), ("SET", "g", "1", "PX", "1"), ("PEXPIRE", "g", "1")),
    *(("EVAL", "return redis.call('TIME')", "1", "h"), ("SCAN", "0", "COUNT", "1"), ("TIME",)),
)
# What the known filter gives besides.
FILTER_COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    *(("HINCRBY", "h", "f", "1"), ("HGET", "h", "f"), ("HMGET", "h", "f"), ("EXPIRE", "h", "60"), ("EXISTS", "s")),
    *(("DEL", "x"), ("SADD", "s", "1"), ("SISMEMBER", "s", "1"), ("SMISMEMBER", "s", "1"), ("SCARD", "s")),
    *(("SETBIT", "b", "0", "0"), ("GETBIT", "b", "0"), ("INFO", "server")),
)
WITHOUT_KEY: Final = {"EVAL", "INFO", "SCAN", "TIME"}


async def examine(
    url: str, *, namespace: str, shards: int, ledger_id: str = "", known_filter: bool = False
) -> list[Check]:
    """All checks of a frontier, and of whom it serves where the caller's ledger is known.

    Changes nothing but keys of its own, which it removes.

    Raises:
        UsageError, TransientError: it cannot be reached.
    """
    check_names(namespace, shards)
    connection = Connection(read_address(url))
    try:
        metas = [f"{{fyke:{namespace}:{number}}}:meta" for number in range(shards)]
        found = [check async for info in server_infos(connection, metas) for check in judge(info)]
        wanted = (*COMMANDS, *(one for one in FILTER_COMMANDS if known_filter and one not in COMMANDS))
        allowed = await _commands(connection, namespace, wanted)
        found.append(allowed)
        if allowed.level == "ok":
            found.append(await _probe(connection, namespace))
        found.append(await _content(connection, metas, namespace, ledger_id))
        return found
    finally:
        await connection.close()


async def _commands(connection: Connection, namespace: str, wanted: Sequence[tuple[str, ...]]) -> Check:
    prefix = f"{{fyke:{namespace}:probe-{secrets.token_hex(4)}}}:"
    refused = []
    try:
        for words in wanted:
            if not await connection.may(*_placed(words, prefix), key=f"{prefix}h"):
                refused.append(words[0].lower())
    finally:
        await connection.may("UNLINK", *(f"{prefix}{name}" for name in "hzswxgb"), key=f"{prefix}h")
    refused = list(dict.fromkeys(refused))
    if refused:
        names = " ".join(f"+{name}" for name in refused)
        hint = f"ACL SETUSER … ~{{fyke:{namespace}:* {names}"
        return Check("commands", "fail", f"this user may not: {', '.join(refused)}", hint)
    return Check("commands", "ok", f"all {len({words[0] for words in wanted})} commands are allowed")


def _placed(words: tuple[str, ...], prefix: str) -> list[str]:
    """The words with the probe's key names."""
    if words[0] in WITHOUT_KEY:
        return [f"{prefix}{word}" if words[0] == "EVAL" and at == 3 else word for at, word in enumerate(words)]
    if words[0] == "XREADGROUP":
        return [f"{prefix}{word}" if word == "x" else word for word in words]
    if words[0] in {"XGROUP", "XINFO"}:
        return [*words[:2], f"{prefix}{words[2]}", *words[3:]]
    return [words[0], f"{prefix}{words[1]}", *words[2:]]


async def _probe(connection: Connection, namespace: str) -> Check:
    """A task is new once and known twice, and goes through all that a task goes through."""
    try:
        await probe(connection, f"{namespace}:probe-{secrets.token_hex(4)}", Random())
    except ProbeFailed as error:
        return Check(
            "probe", "fail", f"a task was not handled as it should be: {error}", "please tell us, with the version"
        )
    except FykeError as error:
        text, full = str(error).removeprefix("the frontier at "), "memory is full" in str(error)
        hint = MORE_MEMORY if full else "look at the server and its log, then ask again"
        return Check("probe", "fail", f"no task can be sent through {text}", hint)
    return Check("probe", "ok", "a task is new once, known the second time, and ends with its acknowledgement")


async def _content(connection: Connection, metas: Sequence[str], namespace: str, ledger_id: str) -> Check:
    made = [await connection.ask("HMGET", meta, "epoch", "shards", key=meta) for meta in metas]
    if not any(epoch for epoch, _ in made):
        return Check("frontier", "ok", "not made yet; the first `fyke run` makes it")
    counts = {int(number) for _, number in made if number}
    if counts != {len(metas)}:
        text = f"it was made with {max(counts)} shard(s), the settings say {len(metas)}"
        return Check("frontier", "fail", text, f"redis.shards = {max(counts)}")
    try:
        refuse_foreign([epoch.decode() for epoch, _ in made if epoch and ledger_id], ledger_id, namespace)
    except LedgerClosed as error:
        return Check("frontier", "fail", error.message, error.hint or "")
    ledgers = sorted({epoch.decode().rpartition(":")[0] for epoch, _ in made if epoch})
    return Check("frontier", "ok", f"made for ledger {', '.join(ledgers)}, {len(metas)} shard(s)")
