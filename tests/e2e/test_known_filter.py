"""`fyke run --once` with a known filter: real processes, a real site and Redis; what it holds is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from fyke.lab.site import SiteConfig
from tests.e2e.town import Town, open_town

ITEMS = 40


async def fyke(town: Town, *arguments: str, **environ: str) -> str:
    role = await town.start(*arguments, **environ)
    assert await role.ended(60) == 0, role.said
    return role.said


def checked(text: str, name: str) -> dict[str, Any]:
    (found,) = (check for check in json.loads(text) if check["name"] == name)
    return dict(found)


@pytest.mark.parametrize("kind", ["exact", pytest.param("bloom", marks=pytest.mark.crash_long)])
async def test_walks_with_a_known_filter_list_and_store_each_item_once(
    tmp_path: Path, fresh_redis: Callable[..., str], kind: str
) -> None:
    known_filter = {"FYKE_KNOWN_FILTER_KIND": kind, "FYKE_KNOWN_FILTER_PLANNED": "1000"}
    async with AsyncExitStack() as stack:
        config = SiteConfig(items=ITEMS, per_page=10)
        town = await open_town(stack, tmp_path, f"sqlite:///{tmp_path / 'fyke.db'}", fresh_redis(), config)
        for _ in range(4):
            await fyke(town, "run", "--once", **known_filter)
        status = json.loads(await fyke(town, "status", "--json", **known_filter))
        assert status["known_filter"]["kind"] == kind
        # Walks end where they connect, so an exact one has met half of them again.
        assert ITEMS // 2 <= status["known_filter"]["marks"] <= ITEMS
        assert f"Known filter {kind}: " in await fyke(town, "status", **known_filter)
        doctor = await town.start("doctor", "--json", **known_filter)
        await doctor.ended(60)
        assert checked(doctor.said, "known filter")["level"] == "ok"
        await fyke(town, "run", "--once", **known_filter | {"FYKE_KNOWN_FILTER_PLANNED": "3"})
        assert "was planned for 3" in await fyke(town, "status", **known_filter | {"FYKE_KNOWN_FILTER_PLANNED": "3"})
        await fyke(town, "audit")
        counts = await town.counts()
        assert (counts.listed, counts.stored) == (ITEMS, ITEMS)
        assert set(town.detail_hits().values()) == {1}


async def test_a_known_filter_without_redis_is_refused_with_the_way_out(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        town = await open_town(stack, tmp_path, f"sqlite:///{tmp_path / 'fyke.db'}", "sql", SiteConfig(items=1))
        role = await town.start("run", "--once", FYKE_KNOWN_FILTER_KIND="exact")
        assert await role.ended(60) == 2
        assert "known_filter.kind" in role.said
        assert "redis://HOST:PORT/0" in role.said
