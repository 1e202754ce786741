"""Tasks that a worker died with go alone where it is their last start, and never lose a result beside another (P2)."""

from __future__ import annotations

import asyncio

from fyke.model import Delivery, Task, TaskKind
from fyke.pipeline.suspects import Suspects


class Floor:
    """Suspects with three starts each; who is on the floor, and who ever met whom."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.met: set[frozenset[str]] = set()
        self.unwritten: set[int] = set()
        self.go = asyncio.Event()
        self.suspects = Suspects(3, self.written)

    async def written(self, delivery: Delivery) -> None:
        await asyncio.sleep(0)
        self.unwritten.discard(delivery.task.ref)

    async def work(self, name: str, ref: int, starts: int, spent: int = 0) -> None:
        delivery = Delivery(Task(TaskKind.ITEM, ref, 1, "a.example"), ref, "w", 0, starts)
        async with self.suspects.place(delivery, spent):
            self.met |= {frozenset((name, other)) for other in self.on}
            self.on.add(name)
            self.unwritten.add(ref)
            await self.go.wait()
            await asyncio.sleep(0)
            self.on.discard(name)

    async def play(self, *works: tuple[str, int, int]) -> None:
        going = [asyncio.create_task(self.work(name, ref, starts)) for name, ref, starts in works]
        for _ in range(5):
            await asyncio.sleep(0)
        self.go.set()
        await asyncio.gather(*going)


def pairs(*names: str) -> set[frozenset[str]]:
    return {frozenset(name) for name in names}


async def test_the_last_start_of_a_suspect_has_no_other_suspect_beside_it() -> None:
    """Whichever of them kills its worker, and whichever comes first, the other is not taken along."""
    for order in ((("b", 1, 1), ("z", 2, 2)), (("z", 2, 2), ("b", 1, 1)), (("y", 1, 2), ("z", 2, 2))):
        floor = Floor()
        await floor.play(*order)
        assert floor.met == set()


async def test_suspects_with_starts_left_and_tasks_without_a_death_go_on_beside_each_other() -> None:
    floor = Floor()
    await floor.play(("a", 1, 1), ("b", 2, 1), ("f", 3, 0))
    assert floor.met == pairs("ab", "af", "bf")
    floor = Floor()
    await floor.play(("z", 1, 2), ("f", 2, 0), ("g", 3, 0))
    assert floor.met == pairs("zf", "zg", "fg")


async def test_starts_that_ended_with_an_outcome_make_no_suspect_but_the_last_one_has_none_beside_it() -> None:
    for starts, met in ((1, pairs("ab", "as", "bs")), (2, pairs("ab"))):
        floor = Floor()
        works = [floor.work("a", 1, starts, starts), floor.work("b", 2, starts, starts), floor.work("s", 3, 1)]
        going = [asyncio.create_task(work) for work in works]
        for _ in range(5):
            await asyncio.sleep(0)
        floor.go.set()
        await asyncio.gather(*going)
        assert floor.met == met


async def test_where_each_task_has_one_start_all_go_on_beside_each_other() -> None:
    floor = Floor()
    floor.suspects = Suspects(1, floor.written)
    await floor.play(("a", 1, 0), ("b", 2, 0))
    assert floor.met == pairs("ab")


async def test_a_suspect_s_place_is_free_when_its_result_is_written_or_it_failed() -> None:
    floor = Floor()
    floor.go.set()
    for ref, starts in ((1, 1), (2, 2)):
        await floor.work("a", ref, starts)
        assert floor.unwritten == set()

    async def fails(starts: int) -> None:
        delivery = Delivery(Task(TaskKind.ITEM, 9, 1, "a.example"), 9, "w", 0, starts)
        async with floor.suspects.place(delivery, 0):
            raise ValueError

    answers = await asyncio.gather(fails(1), fails(2), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, ValueError]
    await asyncio.wait_for(floor.work("z", 3, 2), 5)
