"""The nemesis: the same faults for the same seed, one at a time on each target, everything healed at the end."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fyke.errors import UsageError
from fyke.lab.chaos.nemesis import Act, Nemesis
from fyke.lab.chaos.plan import FAULTS, ChaosConfig, chosen_faults, in_hand_at, ledger_of

NAMES = ("kill", "kill-scheduler", "cut", "burst")


async def order_of(seed: int) -> list[str]:
    done: list[str] = []

    async def act(record: Callable[[str], None]) -> None:
        record("")

    await Nemesis(Random(seed), dict.fromkeys(NAMES, act), 0.001, lambda name, _: done.append(name)).run(0.05)
    return done


async def test_a_seed_gives_one_order_and_each_kind_has_its_turn() -> None:
    first, again = await order_of(7), await order_of(7)
    shared = min(len(first), len(again))
    assert shared >= len(NAMES)
    assert first[:shared] == again[:shared]
    assert set(first[: len(NAMES)]) == set(NAMES)


async def test_two_faults_never_hold_one_target_and_all_are_healed_at_the_end() -> None:
    held: set[str] = set()
    healed: list[str] = []
    clashes: list[str] = []

    def lasting(name: str) -> Act:
        async def act(record: Callable[[str], None]) -> None:
            target = FAULTS[name].target
            clashes.extend([name] if target in held else [])
            held.add(target)
            record("")
            try:
                await asyncio.Event().wait()
            finally:
                held.discard(target)
                healed.append(name)

        return act

    names = ("redis-kill", "redis-freeze", "redis-flush", "kill")
    nemesis = Nemesis(Random(1), {name: lasting(name) for name in names}, 0.001, lambda *_: None)
    await nemesis.run(0.1)
    assert clashes == []
    assert held == set()
    assert len(healed) == 2
    assert "kill" in healed


async def test_the_others_go_on_while_a_target_is_busy() -> None:
    done: list[str] = []

    async def lasting(record: Callable[[str], None]) -> None:
        record("")
        await asyncio.Event().wait()

    async def short(record: Callable[[str], None]) -> None:
        record("")

    acts: dict[str, Act] = {"database-away": lasting, "kill": short}
    await Nemesis(Random(1), acts, 0.001, lambda name, _: done.append(name)).run(0.1)
    assert done.count("database-away") == 1
    assert done.count("kill") > 2


async def test_a_kind_whose_target_was_busy_to_the_end_still_has_its_turn_and_only_it() -> None:
    done: list[str] = []
    over = asyncio.Event()

    async def outage(record: Callable[[str], None]) -> None:
        record("")
        await over.wait()

    async def short(record: Callable[[str], None]) -> None:
        record("")

    def note(name: str, _: str) -> None:
        done.append(name)

    acts: dict[str, Act] = {"redis-stream": outage, "redis-flush": outage, "kill": short}
    loop = asyncio.get_running_loop()
    loop.call_later(0.3, over.set)
    await Nemesis(Random(1), acts, 0.002, note).run(0.2)
    assert done.count("redis-stream") == done.count("redis-flush") == 1
    assert done[-1].startswith("redis")


async def test_a_fault_that_cannot_be_done_is_told() -> None:
    async def fails(record: Callable[[str], None]) -> None:
        raise UsageError("the server did not come back")

    with pytest.raises(UsageError, match="did not come back"):
        await Nemesis(Random(1), {"kill": fails}, 0.001, lambda *_: None).run(0.05)


def config(**values: Any) -> ChaosConfig:
    return ChaosConfig(folder=Path("x"), **values)


def test_without_names_all_that_fit_are_done() -> None:
    on_files = chosen_faults(config(frontier="sql", ledger="sqlite"))
    assert on_files == ("kill", "kill-scheduler", "stop", "term", "burst", "poison")
    everything = chosen_faults(config(frontier="redis", ledger="postgres"))
    assert set(everything) == set(FAULTS) - {"proxies"}
    on_yours = chosen_faults(config(redis_url="redis://h/0", database_url="mysql://h/d", ledger="mariadb"))
    assert set(everything) - set(on_yours) == {"redis-kill", "redis-restart", "redis-cut", "database-kill"}
    with_tls = chosen_faults(config(redis_url="rediss://h/0", frontier="redis", ledger="sqlite"))
    assert with_tls == on_files


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("kil", {}, "no fault 'kil'.*did you mean 'kill'"),
        ("proxies", {}, "no pools of proxies in this version"),
        ("redis-kill", {"frontier": "sql"}, "not Redis"),
        ("redis-kill", {"redis_url": "redis://h/0"}, "started itself"),
        ("redis-flush", {"redis_url": "redis+cluster://h:1"}, "one Redis without TLS"),
        ("database-away", {"ledger": "sqlite"}, "a file"),
        ("database-kill", {"database_url": "postgresql://h/d"}, "started itself"),
        ("swallow", {"ledger": "sqlite", "frontier": "sql"}, "no connection to a server"),
    ],
)
def test_a_fault_that_cannot_be_had_is_refused_with_its_reason(name: str, values: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        chosen_faults(config(faults=(name,), **values))


def test_a_fault_that_touches_tasks_in_hand_may_cost_all_places_of_the_host() -> None:
    """One worker may hold more than its slots: what waits for its commit is in hand, too."""
    faults = {"kill": 2, "redis-flush": 1, "burst": 5, "kill-scheduler": 3}
    assert in_hand_at(faults, config(workers=3, concurrency=8)) == 24 * 3


def test_the_address_of_your_own_database_says_which_ledger_it_is() -> None:
    assert ledger_of("postgresql://h/d") == "postgres"
    assert ledger_of("mysql://h/d") == "mariadb"
    with pytest.raises(UsageError, match="no database server"):
        ledger_of("sqlite:///x.db")
