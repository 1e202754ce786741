import asyncio

import pytest

from fyke.lab.faults import Faults
from fyke.lab.truth import SiteConfig

DETAILS = [f"/detail/t20261120_{number}.html" for number in range(2_000)]


def faults_of(config: SiteConfig, hits: int = 6, kind: str = "detail") -> dict[str, list[str | None]]:
    faults = Faults(config)
    return {path: [faults.next(path, kind) for _ in range(hits)] for path in DETAILS}


def test_a_hit_meets_the_same_fault_in_any_order_of_pages() -> None:
    config = SiteConfig(busy=0.2, resets=0.2, soft_blocks=0.1, slow=0.1)
    forward, backward = Faults(config), Faults(config)
    one = {path: [forward.next(path, "detail") for _ in range(5)] for path in DETAILS}
    for path in reversed(DETAILS):
        assert [backward.next(path, "detail") for _ in range(5)] == one[path]


def test_a_page_is_good_for_ever_after_its_planned_faults() -> None:
    found = faults_of(SiteConfig(busy=1, burst=2, late=1, late_hits=1, soft_blocks=1, soft_block_hits=1, cuts=1))
    assert all(plan == ["block", "404", "503", "503", "cut", None] for plan in found.values())


def test_a_rate_is_kept_and_switching_another_fault_on_does_not_move_it() -> None:
    alone = faults_of(SiteConfig(resets=0.1))
    hit = {path for path, plan in alone.items() if "reset" in plan}
    assert 140 < len(hit) < 260
    both = faults_of(SiteConfig(resets=0.1, busy=0.5))
    assert {path for path, plan in both.items() if "reset" in plan} == hit


def test_late_is_for_details_and_empty_is_for_lists() -> None:
    config = SiteConfig(late=1, empty_lists=1)
    faults = Faults(config)
    assert [faults.next("/list/index.html", "list") for _ in range(2)] == ["empty", None]
    assert [faults.next("/detail/x.html", "detail") for _ in range(2)] == ["404", None]
    assert faults.next("/robots.txt", "robots") is None


def test_a_script_replaces_the_rates_of_its_page_and_can_name_robots() -> None:
    faults = Faults(SiteConfig(busy=1, script={"/a": ("ok", "429"), "/robots.txt": ("503",)}))
    assert [faults.next("/a", "list") for _ in range(3)] == [None, "429", None]
    assert [faults.next("/robots.txt", "robots") for _ in range(2)] == ["503", None]
    faults.script({"/a": ["reset"]})
    assert [faults.next("/a", "list") for _ in range(2)] == ["reset", None]


def test_everywhere_holds_until_it_is_taken_back() -> None:
    faults = Faults(SiteConfig())
    faults.everywhere("block")
    assert [faults.next("/a", "list"), faults.next("/b", "detail"), faults.next("/robots.txt", "robots")] == [
        "block",
        "block",
        None,
    ]
    faults.everywhere(None)
    assert faults.next("/a", "list") is None


def test_a_fault_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no fault 'empy'; there are .*empty"):
        Faults(SiteConfig(script={"/a": ("empy",)}))
    with pytest.raises(ValueError, match="no fault"):
        Faults(SiteConfig()).everywhere("500")


async def test_release_lets_go_those_who_wait_and_no_later_ones() -> None:
    faults = Faults(SiteConfig())
    first = asyncio.ensure_future(faults.held())
    await asyncio.sleep(0)
    faults.release()
    await first
    later = asyncio.ensure_future(faults.held())
    await asyncio.sleep(0)
    assert not later.done()
    faults.release()
    await later
