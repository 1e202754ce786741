"""What is looked at before a frontier is used: the server, its settings, and what is there already."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fyke.errors import UsageError
from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.shard import Shard

NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_SHARDS: Final = 64


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
