"""Work as the frontier hands it out."""

from __future__ import annotations

from msgspec import Struct, field

from fyke.model.words import TaskKind, TaskState


class Task(Struct, frozen=True):
    """Work for the frontier. `ref` is an item's or a pass's id. `starts`: costing starts that the ledger already
    knows.
    """

    kind: TaskKind
    ref: int
    generation: int
    lane: str
    pool: str = "text"
    priority: int = 1
    source_hash: str = ""
    starts: int = 0

    @property
    def key(self) -> str:
        return f"{self.kind.value}{self.ref}"


class Delivery(Struct, frozen=True):
    """A task in a worker's hands. `token` fences it: a later lease of the same task has another one.

    `starts`: costing starts before this lease. `start_at`: not to begin before.
    """

    task: Task
    token: int
    worker: str
    deadline: int
    starts: int = 0
    start_at: int = 0


class Leased(Struct, frozen=True):
    """`wait_ms`: after that time something may be due that is not now (at most 1,000; offers wake earlier)."""

    deliveries: list[Delivery]
    wait_ms: int


class Started(Struct, frozen=True):
    """Answer to `begin`. `lost`: not ours any more. `wait_ms` is to be waited before the request goes out.

    `reserved` False: the lane is held for `wait_ms`, no start was reserved or counted; give the task back.
    """

    lost: bool
    starts: int = 0
    wait_ms: int = 0
    reserved: bool = True


class Retry(Struct, frozen=True):
    """Give a task back for later. `counted`: this start costs one of the task's attempts."""

    delivery: Delivery
    delay_ms: int
    reason: str
    counted: bool


class TaskView(Struct, frozen=True):
    """Where a task is, and why it waits."""

    task: Task
    state: TaskState
    starts: int
    at: int | None  # delayed: when due; leased: deadline
    worker: str = ""
    reason: str = ""
    lane_next_at: int = 0
    lane_hold_until: int = 0


class Reaped(Struct, frozen=True):
    """A lease that ran out and was put back. `begun`: its worker had started, so a start was counted."""

    task: Task
    worker: str
    starts: int
    begun: bool


class LaneStats(Struct, frozen=True):
    lane: str
    ready: int
    delayed: int
    leased: int
    next_at: int
    hold_until: int


class FrontierStats(Struct, frozen=True):
    ready: int
    delayed: int
    leased: int
    oldest_ready_at: int | None
    last_lease_at: int | None
    lanes: list[LaneStats]  # at most 200, those with most tasks first
    acked: int = 0  # since the frontier was made
    buried: int = 0
    next_at: int | None = None  # when the first waiting task may go; None where none waits
    pools: dict[str, int] = field(default_factory=dict)  # ready tasks by pool, those pools that have some
    aside: int = 0  # tasks that this release could not read: kept as they are, and offered anew by the reconciler
    memory: float = 0.0  # the share in use of what its server may use; from 1 on nothing new is taken
