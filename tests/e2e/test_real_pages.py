"""Saved pages of real sites: the values that were read of them by other means come out of our sources exactly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fyke.errors import FetchFailed
from fyke.fetchers.encoding import decode
from fyke.lab.recorded import Reading, RecordedPages, read_all
from fyke.model import Outcome, Response
from fyke.pipeline.requests import judge
from fyke.sources.loader import load_file, load_folder
from fyke.sources.source import FileSource
from tests.realdata import (
    DATA,
    DETAILS,
    EXAMPLES,
    FIRST_TITLE,
    LISTS,
    OUTCOMES,
    REPLAY,
    Listed,
    checked_files,
    needs_saved_pages,
    saved_file,
)

pytestmark = needs_saved_pages


def source(name: str) -> FileSource:
    return load_file(EXAMPLES / f"{name}.yaml").source


def saved(name: str, url: str) -> Response:
    body = saved_file(name).read_bytes()
    read = decode(body)
    return Response(url, 200, {}, body, read.text, read.encoding, read.source)


@pytest.fixture(scope="module")
def readings() -> dict[str, Reading]:
    """Everything that each source of examples/real reads of the replay, offline."""

    async def read() -> dict[str, Reading]:
        found = {}
        for one in load_folder(EXAMPLES):
            assert one.warnings == []
            recorded = RecordedPages(REPLAY, DATA, one.source.fetch)
            found[one.source.resolved.id] = await read_all(one.source, recorded)
        return found

    return asyncio.run(read())


def shown(values: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {name: values.get(name) for name in expected}


def test_every_saved_page_is_checked_somewhere() -> None:
    rows = (DATA / "INDEX.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert checked_files() == {row.split("_")[0] for row in rows}


def test_every_source_has_values_to_be_compared_with(readings: dict[str, Reading]) -> None:
    assert set(readings) == set(LISTS)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_the_rows_that_were_counted_and_read_by_other_means(name: str, readings: dict[str, Reading]) -> None:
    pages = readings[name].lists
    for expected, page in zip(LISTS[name], pages, strict=False):
        check_page(expected, page.read, page.next)
    later = pages[len(LISTS[name]) :]
    assert [page.read.entries for page in later] == []


def check_page(expected: Listed, page: Any, following: str | None) -> None:
    assert (page.outcome, page.reason) == (Outcome.OK, "")
    assert (len(page.entries), len(page.refused)) == (expected.rows, expected.refused)
    keys = [entry.key for entry in page.entries]
    assert len(set(keys)) == len(keys)
    for entry, values in zip((*page.entries[:1], *page.entries[-1:]), (expected.first, expected.last), strict=False):
        assert shown({**entry.fields, "key": entry.key}, values) == values
    for name, column in expected.column.items():
        assert [entry.fields[name] for entry in page.entries] == column
    if expected.total is not None:
        assert page.total_hint == expected.total
    if expected.last_page is not None:
        assert page.last_hint == expected.last_page
    if expected.next is not None:
        assert following == expected.next


@pytest.mark.parametrize("name", DETAILS)
def test_a_detail_has_the_values_that_were_read_by_other_means(name: str, readings: dict[str, Reading]) -> None:
    expected = DETAILS[name]
    (detail,) = (one for one in readings[name].details if one.entry.key == expected.key and one.record)
    assert (detail.outcome, detail.reason, detail.missing) == (Outcome.OK, "", [])
    assert detail.record is not None
    assert shown(detail.record, expected.record) == expected.record


def entries(readings: dict[str, Reading], name: str, page: int = 0) -> list[Any]:
    return readings[name].lists[page].read.entries


def test_corrections_of_ggzy_are_items_of_their_own(readings: dict[str, Reading]) -> None:
    found = entries(readings, "ggzy")
    assert [entry.fields["kind"] for entry in found].count("更正事项") == 2
    assert {entry.lane for entry in found} == {"www.ggzy.gov.cn"}


def test_ggzy_s_shell_alone_is_never_stored_as_the_body() -> None:
    assert source("ggzy").read_detail(1, saved("a02", "https://www.ggzy.gov.cn/x"), {}).outcome is Outcome.MISFIT


def test_ids_that_are_not_in_order_stay_in_the_order_of_the_list(readings: dict[str, Reading]) -> None:
    keys = [entry.key for entry in entries(readings, "rtfund")]
    for one, other in (("12323941", "12323035"), ("12323030", "12323031")):
        assert keys.index(one) + 1 == keys.index(other)
    assert [entry.key for entry in entries(readings, "jslcae")][:4] == ["127", "126", "124", "125"]


def test_two_notices_of_one_title_are_two_items(readings: dict[str, Reading]) -> None:
    two = entries(readings, "jslcae")[2:4]
    assert two[0].fields["title"] == two[1].fields["title"]
    rings = [entry.fields["title"] for entry in entries(readings, "michelson")]
    assert max(rings.count(title) for title in rings) == 3


def test_the_second_page_of_issues_has_its_pull_requests(readings: dict[str, Reading]) -> None:
    second = entries(readings, "github", 1)
    assert sum(entry.fields["is_pull_request"] for entry in second) == 16
    both = {entry.key for page in (0, 1) for entry in entries(readings, "github", page)}
    assert len(both) == 150
    assert readings["github"].lists[1].read.last_by_hint is True


def test_an_entry_without_a_title_is_an_entry(readings: dict[str, Reading]) -> None:
    assert sum("title" not in entry.fields for entry in entries(readings, "cnblog")) == 1


def test_few_entries_of_the_sitemap_have_a_date_of_publication(readings: dict[str, Reading]) -> None:
    assert sum("video_published" in entry.fields for entry in entries(readings, "hebdenbridge")) == 6


def test_a_link_that_is_signed_for_each_request_is_neither_key_nor_change(readings: dict[str, Reading]) -> None:
    text = saved_file("d11").read_text(encoding="utf-8")
    later = text.replace("timestamp=1500052504", "timestamp=1500099999").replace("signature=", "signature=x")
    read = source("weixin")
    again = read.read_page(read.listings()[0], Response("http://weixin.sogou.com/weixin", 200, {}, b"", later), None)
    before = entries(readings, "weixin")
    assert [(entry.key, entry.hash) for entry in again.entries] == [(entry.key, entry.hash) for entry in before]
    assert again.entries[0].fields["url"] != before[0].fields["url"]


def test_a_session_in_the_shop_s_own_links_is_in_no_field(readings: dict[str, Reading]) -> None:
    for entry in entries(readings, "mypapershop", 1):
        assert "Session_ID" not in repr(entry.fields)


def test_the_carousel_is_no_list(readings: dict[str, Reading]) -> None:
    assert len(entries(readings, "towerrevo")) == 7


def test_sticky_threads_are_pinned(readings: dict[str, Reading]) -> None:
    found = entries(readings, "mindfactory")
    assert [entry.key for entry in found if entry.pinned] == ["78242", "74230", "82431"]
    normal = [entry for entry in found if not entry.pinned]
    assert (len(normal), normal[0].key, normal[-1].key) == (30, "93170", "93114")
    assert normal[0].fields["url"] == "https://forum.mindfactory.de/t93170-vorgangsnummer-4609939-a.html"


def test_texts_have_neither_styles_nor_escapes(readings: dict[str, Reading]) -> None:
    (lamps,) = (one.record for one in readings["ccgp"].details)
    assert lamps is not None
    assert "<style" not in lamps["body_html"]
    assert "border:1px" not in lamps["body_text"]
    assert lamps["body_text"].startswith("一、项目编号：LKZX2025-CG013 二、项目名称：清镇市")
    (article,) = (one.record for one in readings["toutiao"].details)
    assert article is not None
    assert "<strong>天长" in article["body_html"]


@pytest.mark.parametrize("page", OUTCOMES)
def test_a_page_that_stands_in_for_the_page_is_no_list_and_no_detail(page: str) -> None:
    response = saved(page, "https://site.example/")
    outcome, word = OUTCOMES[page]
    read = source("ccgp")
    with pytest.raises(FetchFailed) as caught:
        judge(response, read.fetch)
    assert caught.value.outcome == outcome
    assert word in caught.value.reason
    # And without that, the sources of these examples would take none of them for a page of theirs.
    for name in ("ccgp", "ggzy", "dfa66", "monkeydom", "eurovision", "tender"):
        read = source(name)
        assert read.read_page(read.listings()[0], response, None).outcome is Outcome.MISFIT
        for step in range(read.steps):
            assert read.read_detail(step, response, {"title": FIRST_TITLE}).outcome is Outcome.MISFIT
