"""A frontier of its own beside the real one, used once and removed: whether this server does what the scripts ask."""

from __future__ import annotations

from random import Random

from fyke.frontiers.redis.connection import Connection
from fyke.frontiers.redis.frontier import RedisFrontier
from fyke.model import LanePolicy, Retry, Task, TaskKind

LEASE_MS = 10_000


class ProbeFailed(Exception):
    """A task was not handled as it should be."""


async def probe(connection: Connection, namespace: str, random: Random) -> None:
    """
    Raises:
        ProbeFailed: says what was expected.
        TransientError, UsageError
    """
    frontier = RedisFrontier(connection, namespace=namespace, shards=1, lease_ms=LEASE_MS, random=random)
    tasks = [Task(TaskKind.ITEM, ref, 1, "probe.invalid") for ref in (1, 2)]
    prefix = f"{{fyke:{namespace}:0}}:"
    try:
        _expect("made once", await frontier.rebuild("probe", 1), True)
        await frontier.configure([LanePolicy("probe.invalid", 0, 0, 2)])
        _expect("new once", await frontier.offer(tasks), 2)
        _expect("known the second time", await frontier.offer(tasks), 0)
        first, second = (await frontier.lease(2, LEASE_MS, worker="probe")).deliveries
        _expect("started", [one.starts for one in await frontier.begin([first, second])], [1, 1])
        _expect("renewed", await frontier.extend([first, second], LEASE_MS), [True, True])
        _expect("given back", await frontier.retry([Retry(first, 0, "probe", counted=False)]), [True])
        _expect("released", await frontier.release([second]), [True])
        again = (await frontier.lease(2, LEASE_MS, worker="probe")).deliveries
        _expect("leased again", len(again), 2)
        _expect("a stale lease is refused", await frontier.ack([first]), [False])
        _expect("acknowledged", await frontier.ack(again), [True, True])
        _expect("reaped", await frontier.reap(), [])
        _expect("gone", await frontier.known([task.key for task in tasks]), [None, None])
    finally:
        async for names in connection.found(f"{prefix}*", f"{prefix}meta"):
            await connection.ask("UNLINK", *names, key=f"{prefix}meta")


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ProbeFailed(f"{what}: {found!r} in place of {expected!r}")
