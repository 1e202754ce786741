"""Connections to one server, a master behind sentinels, or a cluster; scripts on them; what their errors mean.

Nothing is repeated by the driver: a call that may have taken effect is a TransientError, and callers repeat whole
calls, which are safe to repeat. A half-open connection is noticed by the socket's time limit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis import exceptions
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from fyke.errors import FykeError, TransientError, UsageError
from fyke.frontiers.redis.address import Address
from fyke.frontiers.redis.scripts import Script

CONNECT_S: Final = 3.0
REPLY_S: Final = 5.0
# Longer than any wait for a wake-up, so that an idle wait is no error.
BLOCK_S: Final = 1.0
MOST_CONNECTIONS: Final = 16

_AWAY: Final = {
    "LOADING": "it is loading its data",
    "READONLY": "it is a replica now: a fail-over is going on",
    "MISCONF": "it cannot write to its disk",
    "OOM": "its memory is full, so it takes nothing new: raise maxmemory, or let the workers empty the backlog",
    "CLUSTERDOWN": "the cluster is down",
    "MASTERDOWN": "its master is down",
    "TRYAGAIN": "the cluster is moving slots",
    "NOREPLICAS": "it has too few replicas to accept writes",
    "BUSY": "a script keeps it busy",
}
_REFUSED: Final = ("WRONGPASS", "NOAUTH", "NOPERM")
# An error inside a script has its code in the middle on old servers.
_CODE: Final = re.compile(r"(?:^|\s-)([A-Z][A-Z_]+)\s")


class Connection:
    """Clients for calls and, apart from them, for waiting."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._calls, self._waits = _raw(_client(address)), _raw(_client(address))
        # Opened before the first call is refused: a person must change something.
        self.starting = True
        self._turn = asyncio.Semaphore(MOST_CONNECTIONS)
        # Of a whole call to one server: the driver's own would make a task for each writing. Who looks for a master or
        # for nodes may have to ask several servers, each with the driver's limit.
        self._limit = REPLY_S if address.kind == "server" else None

    async def run(self, script: Script, key: str, *arguments: bytes | str | int) -> Any:
        """Run a script on the shard of `key`; its raw reply."""
        async with self._turn, self.translated(), asyncio.timeout(self._limit):
            try:
                return await self._calls.execute_command("EVALSHA", script.sha, 1, key, *arguments)
            except exceptions.NoScriptError:
                return await self._calls.execute_command(  # type: ignore[no-untyped-call,unused-ignore]
                    "EVAL", script.text, 1, key, *arguments
                )

    async def ask(self, *words: bytes | str | int, key: str = "") -> Any:
        """One command; on a cluster at the node that holds `key`."""
        async with self._turn, self.translated(), asyncio.timeout(self._limit):
            return await self._command(self._calls, words, key)

    async def info(self, key: str, *sections: str) -> dict[str, str]:
        """What the server that holds `key` says of itself."""
        raw: bytes = await self.ask("INFO", *sections, key=key)
        lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines())
        return {name: value for name, _, value in lines if value}

    async def may(self, *words: bytes | str | int, key: str = "") -> bool:
        """Whether the server lets our user give this command; any other answer is leave."""
        async with self._turn, self.translated(), asyncio.timeout(self._limit):
            try:
                await self._command(self._calls, words, key)
            except exceptions.ResponseError as error:
                return _code(error) != "NOPERM"
        return True

    async def first_of(self, keys: Sequence[str], seconds: float) -> None:
        """Wait until one of these lists gives something, at most `BLOCK_S`; on a cluster the keys share a slot."""
        async with self.translated(), asyncio.timeout(self._limit and self._limit + BLOCK_S):
            await self._command(self._waits, ("BLPOP", *keys, f"{min(seconds, BLOCK_S):.3f}"), keys[0])

    async def _command(self, client: Redis | RedisCluster, words: Sequence[bytes | str | int], key: str) -> Any:
        if not isinstance(client, RedisCluster):
            return await client.execute_command(*words)  # type: ignore[no-untyped-call]
        await client.initialize()
        node = client.get_node_from_key(key) if key else client.get_default_node()
        if node is None:
            raise exceptions.ClusterDownError("CLUSTERDOWN no node serves the slot")
        return await client.execute_command(*words, target_nodes=node)

    async def found(self, pattern: str, key: str) -> AsyncIterator[list[bytes]]:
        """Names of keys that match, in batches, at the node that holds `key`."""
        cursor: bytes | int = 0
        while True:
            cursor, names = await self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000, key=key)
            if names:
                yield names
            if int(cursor) == 0:
                return

    async def close(self) -> None:
        for client in (self._calls, self._waits):
            await client.aclose()
            manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
            for sentinel in manager.sentinels if manager is not None else ():
                await sentinel.aclose()

    @asynccontextmanager
    async def translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
            raise self._meaning(error) from None
        except RuntimeError as error:
            # What uvloop says of writing to a connection that was reset a moment ago.
            if "handler is closed" not in str(error):
                raise
            raise self._meaning(exceptions.ConnectionError("the connection was reset")) from None

    def _meaning(self, error: Exception) -> FykeError:
        text = self.address.hidden(" ".join(str(error).split()))[:300]
        where, code = f"the frontier at {self.address}", _code(error)
        if code in ("STALE_EPOCH", "CLOCK_STEP"):
            return Answered(text)
        if code in _REFUSED or isinstance(error, exceptions.AuthenticationError):
            message, hint = f"{where} refuses us: {text}", "check user, password and ACL of the frontier's address"
            return UsageError(message, field="frontier", hint=hint) if self.starting else TransientError(message)
        if code in _AWAY:
            return (TransientError if code == "OOM" else Away)(f"{where}: {_AWAY[code]}")
        if isinstance(error, MasterNotFoundError):
            return Away(f"{where}: the sentinels know no master {self.address.service!r} now")
        if isinstance(error, (exceptions.TimeoutError, TimeoutError)):
            return Away(f"{where} does not answer; what was asked may have been done or not")
        if isinstance(error, exceptions.ResponseError):
            if self.starting and "DB index" in text:
                hint = "the number of a database that it has: /0 to /15, unless its setting `databases` says otherwise"
                return UsageError(f"{where} has no database {self.address.db}", field="frontier", hint=hint)
            return TransientError(f"{where} refused a call: {text}")
        return Away(f"{where} cannot be reached: {text}")


class Away(TransientError):
    """Nobody can work with the server now, so nobody can renew a lease."""


class Answered(FykeError):
    """A script's own refusal, for who called it."""


def _code(error: Exception) -> str:
    """The code before a server's error text; the driver takes some away and keeps them beside it."""
    if (code := getattr(error, "status_code", None)) not in (None, "ERR"):
        return str(code)
    found = _CODE.findall(f"{error} ") if isinstance(error, exceptions.ResponseError) else []
    return next((code for code in found if code != "ERR"), "")


def _raw(client: Redis | RedisCluster) -> Redis | RedisCluster:
    """Replies as they come, but what the driver asks of a cluster for itself."""
    for name in list(client.response_callbacks):
        if not str(name).startswith(("CLUSTER", "COMMAND")):
            del client.response_callbacks[name]
    if isinstance(client, RedisCluster):
        client.result_callbacks.clear()
    return client


def _client(address: Address) -> Redis | RedisCluster:
    options: dict[str, Any] = {
        "username": address.user,
        "password": address.password,
        "socket_timeout": REPLY_S,
        "socket_connect_timeout": CONNECT_S,
        "socket_keepalive": True,
        "protocol": 2,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        "driver_info": None,
        "retry": Retry(NoBackoff(), 0),
    }
    if address.tls is not None:
        options |= {"ssl": True, **address.tls}
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.nodes]
        return RedisCluster(startup_nodes=nodes, **options)
    options |= {"db": address.db, "retry_on_error": []}
    if address.kind == "sentinel":
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            list(address.nodes),
            sentinel_kwargs={
                name: value for name, value in options.items() if name not in ("username", "password", "db")
            },
            **options,
        )
        master: Redis = sentinel.master_for(address.service)
        return master
    host, port = address.nodes[0]
    return Redis(host=host, port=port, **options | {"socket_timeout": None})
