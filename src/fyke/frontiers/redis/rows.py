"""Tasks, deliveries and tokens as the scripts write and read them; what a caller may give is checked before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from fyke.errors import UsageError, nearest
from fyke.model import Delivery, Reaped, Retry, Task, TaskKind, TaskState, TaskView

POOLS: Final = ("text", "render")
BATCH_LIMIT: Final = 1_000
WAIT_LIMIT_MS: Final = 1_000
LONGEST_DELAY: Final = 30 * 24 * 3_600_000
LONGEST_REASON: Final = 2_000
_SEQUENCE_BITS: Final = 20


def token_of(entry: bytes | str) -> int:
    """The number of a stream entry's id: a later lease has another one."""
    ms, _, sequence = (entry if isinstance(entry, str) else entry.decode()).partition("-")
    return int(ms) << _SEQUENCE_BITS | int(sequence)


def read_token(token: int) -> str:
    return f"{token >> _SEQUENCE_BITS}-{token & (1 << _SEQUENCE_BITS) - 1}"


def reference(delivery: Delivery) -> tuple[str, str]:
    return (delivery.task.key, read_token(delivery.token))


def member(delivery: Delivery) -> str:
    """What a lease is called in the places of a lane."""
    return f"{delivery.task.key}|{read_token(delivery.token)}"


def retry_row(one: Retry) -> tuple[str, str, int, bool, str]:
    delay = min(max(one.delay_ms, 0), LONGEST_DELAY)
    return (*reference(one.delivery), delay, one.counted, one.reason[:LONGEST_REASON])


def best_first(tasks: Sequence[Task]) -> dict[str, Task]:
    """Each key once, at its highest generation."""
    wanted: dict[str, Task] = {}
    for task in tasks:
        other = wanted.get(task.key)
        if other is None or task.generation > other.generation:
            wanted[task.key] = task
    return wanted


def offer_row(key: str, task: Task) -> list[object]:
    priority = min(max(task.priority, 0), 2)
    return [key, task.generation, task.lane, task.pool, priority, task.source_hash, task.starts]


def delivery_of(row: list[Any], pool: str, worker: str, deadline: int, ahead: int) -> Delivery:
    """`ahead`: of the server's clock, before the caller's."""
    key, token, generation, source, priority, lane, starts, start_at = row
    task = Task(TaskKind(key[0]), int(key[1:]), generation, lane, pool, priority, source, starts)
    return Delivery(task, token_of(token), worker, deadline - ahead, starts, start_at - ahead)


def read_reaped(row: list[Any]) -> Reaped:
    key, generation, lane, pool, priority, source, starts, begun, worker = row
    task = Task(TaskKind(key[0]), int(key[1:]), generation, lane, pool, priority, source, starts)
    return Reaped(task, worker, starts, begun)


def view_of(key: str, row: list[Any], ahead: int) -> TaskView:
    generation, lane, pool, priority, source, starts, state, at, worker, reason, next_at, hold = row
    task = Task(TaskKind(key[0]), int(key[1:]), generation, lane, pool, priority, source, starts)
    times = [told and told - ahead for told in (next_at, hold)]
    return TaskView(task, TaskState(state), starts, None if at is False else at - ahead, worker, reason, *times)


def check_batch(batch: Sequence[object]) -> None:
    if len(batch) > BATCH_LIMIT:
        raise ValueError(f"a call takes at most {BATCH_LIMIT} tasks, not {len(batch)}")


def check_pool(pool: str) -> None:
    if pool not in POOLS:
        raise UsageError(f"no such pool: {pool!r}", field="pool", hint=nearest(pool, POOLS) or "text or render")


def check_lanes(lanes: Iterable[str]) -> None:
    """A lane is a part of keys and of lists that end at a line's end."""
    for lane in lanes:
        if not lane or "\n" in lane or lane.startswith(">"):
            raise ValueError(f"not a lane: {lane!r}")


def check_tasks(tasks: Sequence[Task]) -> None:
    check_batch(tasks)
    for task in tasks:
        check_pool(task.pool)
        if "\n" in task.source_hash:
            raise ValueError(f"not a source's hash: {task.source_hash!r}")
    check_lanes({task.lane for task in tasks})
