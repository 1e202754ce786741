"""Walks of lists pause while too much waits: nothing is dropped, no page is read again, and it is told once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from fyke.model import LanePolicy, RunState
from fyke.pipeline import walking
from fyke.pipeline.backlog import MARK, Backlog
from fyke.pipeline.heart import WorkerConfig
from fyke.pipeline.scheduler import open_by_hand
from fyke.pipeline.stages import Stages
from fyke.pipeline.worker import Worker
from fyke.policy.outcome import Limits
from tests.crash.virtual import VirtualClock, run_virtual
from tests.pipeline.network import DETAIL, SITE, Answer, HostSource, Office, PlayedNetwork, list_page, office

PAGES, PER_PAGE, HIGH, LOW = 8, 3, 7, 3
SLOW = "slow.example"
KEYS = [f"k{number}" for number in range(PAGES * PER_PAGE)]


def answer(url: str) -> Answer:
    if "/detail/" in url:
        return DETAIL
    number = int(url.rpartition("/")[2])
    return list_page(*KEYS[(number - 1) * PER_PAGE : number * PER_PAGE], more=number < PAGES)


def worker_of(process: Office, number: int) -> Worker:
    backlog = Backlog(process.ledger, process.frontier, process.clock, high=HIGH, low=LOW)
    config = WorkerConfig(f"w{number}", "here", number, "test")
    parts = process.parts
    return Worker(
        config,
        process.ledger,
        process.sender,
        parts.shelf,
        process.clock,
        Random(number),
        Limits(),
        Stages(),
        backlog=backlog,
    )


@pytest.mark.parametrize("keeps", ["with each page", "now and then"])
def test_a_long_list_is_read_no_faster_than_its_pages_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: str
) -> None:
    """Two workers; details go every ten seconds, list pages might go four times as fast. A walk keeps its state with
    each page while it is short, and now and then when it is long: a pause is such a moment.
    """
    if keeps == "now and then":
        monkeypatch.setattr(walking, "SMALL_TRAIL", 0)
        monkeypatch.setattr(walking, "KEEP_EVERY_S", 1e9)

    async def scene() -> None:
        clock = VirtualClock()
        network = PlayedNetwork(clock, answer)
        source = HostSource(SLOW, lanes=(LanePolicy(SITE, 2_500, 0, 4), LanePolicy(SLOW, 10_000, 0, 1)))
        most, marks = 0, Counter[int]()
        async with office(tmp_path / "ledger.db", clock, network, source) as process:
            await process.apply(source)
            await open_by_hand(process.scheduler, process.ledger, process.parts.shelf, ["played"])
            workers = [worker_of(process, number) for number in (1, 2)]
            working = [asyncio.create_task(worker.run()) for worker in workers]
            while await process.ledger.open_count():
                stats = await process.frontier.stats()
                most = max(most, stats.ready + stats.delayed)
                marks[await process.ledger.cursor(MARK)] += 1
                await clock.sleep(1)
            for worker in workers:
                worker.stop()
            await asyncio.gather(*working)
            (run,) = await process.ledger.runs()
            (counts,) = await process.ledger.counts()
            events = [event for event in await process.ledger.events() if event.kind == "backpressure"]
        assert (counts.listed, counts.stored) == (len(KEYS), len(KEYS))
        assert run.state is RunState.COMPLETE
        # The page that went over the mark is whole in the ledger; the walk's own task waits, too.
        assert HIGH <= most <= HIGH + PER_PAGE + 1
        assert marks[1] > 10
        assert 1 <= len(events) <= PAGES
        assert "are read on when fewer than 3 do" in events[0].message
        asked = Counter(url for _, url in network.log)
        assert max(asked[f"http://{SLOW}/detail/{key}"] for key in KEYS) == 1
        # Once by the walk, once by its second look, and once more where it goes on, to see that it still connects.
        assert max(count for url, count in asked.items() if "/list/" in url) <= 3

    run_virtual(scene())
