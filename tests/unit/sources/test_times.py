"""Times that a page tells from its own moment, without a year, in other languages, or with the day in front."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.model import Response
from fyke.sources.document import Document
from fyke.sources.timestamps import read_time
from tests.unit.sources.making import LISTED, URL, made

SHANGHAI = ZoneInfo("Asia/Shanghai")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)  # 11:04 in Shanghai
AUTO = ("auto",)


def read(text: str, *formats: str, at: datetime | None = AT) -> str | None:
    found = read_time(text, formats or AUTO, SHANGHAI, at)
    return found.removesuffix("+08:00") if found else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("刚刚", "2026-01-02T11:04:00"),
        ("5分钟前", "2026-01-02T10:59:00"),
        ("3小时前", "2026-01-02T08:00:00"),
        ("半小时前", "2026-01-02T10:34:00"),
        ("一个半小时前", "2026-01-02T09:34:00"),
        ("发布于：2天前", "2025-12-31T00:00:00"),
        ("两天前", "2025-12-31T00:00:00"),
        ("1星期前", "2025-12-26T00:00:00"),
        ("3个月前", "2025-10-02T00:00:00"),
        ("昨天", "2026-01-01T00:00:00"),
        ("昨天 12:30", "2026-01-01T12:30:00"),
        ("前天08:05", "2025-12-31T08:05:00"),
        ("2 hours ago", "2026-01-02T09:00:00"),
        ("an hour ago", "2026-01-02T10:00:00"),
        ("Yesterday at 10:30", "2026-01-01T10:30:00"),
        ("10:30", "2026-01-02T10:30:00"),
        ("23:55", "2026-01-01T23:55:00"),
        # Without a year: the last such day.
        ("06-27 17:52", "2025-06-27T17:52:00"),
        ("[12-31]", "2025-12-31T00:00:00"),
        ("01-03", "2026-01-03T00:00:00"),
        ("01-05", "2025-01-05T00:00:00"),
        ("6月27日", "2025-06-27T00:00:00"),
        ("12月31日 23:00", "2025-12-31T23:00:00"),
        ("02-29", "2024-02-29T00:00:00"),
        ("Mar 10", "2025-03-10T00:00:00"),
        ("2 de mayo", "2025-05-02T00:00:00"),
        # A whole date wins over what is beside it.
        ("2024-05-06 （2天前）", "2024-05-06T00:00:00"),
        ("项目编号 123-2020-1", None),
        ("2024-02-30", None),
        ("3.5", None),
        ("共 3 项", None),
    ],
)
def test_a_page_tells_times_from_its_own_moment(text: str, expected: str | None) -> None:
    assert read(text) == expected


@pytest.mark.parametrize("text", ["3小时前", "昨天", "06-27", "6月27日", "Mar 10", "10:30", "2 hours ago"])
def test_without_the_page_s_moment_nothing_is_guessed(text: str) -> None:
    assert read(text, at=None) is None


@given(st.datetimes(datetime(2000, 3, 1), datetime(2090, 1, 1)), st.integers(0, 360))
def test_a_date_without_a_year_is_the_last_that_the_page_can_have_shown(at: datetime, days: int) -> None:
    moment = at.replace(tzinfo=SHANGHAI)
    day = moment - timedelta(days=days)
    if (day.month, day.day) == (2, 29):
        return
    assert read(f"{day:%m-%d}", at=moment) == f"{day:%Y-%m-%d}T00:00:00"
    assert read(f"{day:%m-%d %H:%M}", "%m-%d %H:%M", at=moment) == f"{day:%Y-%m-%dT%H:%M}:00"


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("24/09/2018", "auto", "2018-09-24T00:00:00"),
        ("09/24/2018", "auto", "2018-09-24T00:00:00"),
        ("03.04.2025 10:00", "auto", "2025-04-03T10:00:00"),
        # A day or a month: only the source can say.
        ("03/04/2025", "auto", None),
        ("03/04/2025", "day_first", "2025-04-03T00:00:00"),
        ("03/04/2025", "month_first", "2025-03-04T00:00:00"),
        ("04/04/2025", "auto", "2025-04-04T00:00:00"),
        ("24. September 2018", "auto", "2018-09-24T00:00:00"),
        ("24 de setembro de 2018", "auto", "2018-09-24T00:00:00"),
        ("le 5 août 2020", "auto", "2020-08-05T00:00:00"),
        ("1er mars 2021", "auto", "2021-03-01T00:00:00"),
        ("3 Märzz 2020", "auto", None),
        ("12-31 10:00", "%m-%d %H:%M", "2025-12-31T10:00:00"),
        ("23:00", "%H:%M", "2026-01-01T23:00:00"),
    ],
)
def test_days_months_and_formats_without_a_year(text: str, form: str, expected: str | None) -> None:
    assert read(text, form) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seg, 24 Set 2018 19:42:40 -0300", "2018-09-24T19:42:40-03:00"),
        ("2025-06-27 10:00 UTC+8", "2025-06-27T10:00:00+08:00"),
        ("Wed, 29 May 2019 10:16:00 EST", "2019-05-29T10:16:00-05:00"),
        # Of China or of Chicago: the schedule's zone holds.
        ("2019-05-29 10:16:00 CST", "2019-05-29T10:16:00+08:00"),
    ],
)
def test_zones_that_are_named(text: str, expected: str) -> None:
    assert read_time(text, AUTO, SHANGHAI) == expected


def test_the_moment_is_the_site_s_clock_before_ours() -> None:
    def at(**headers: str) -> datetime | None:
        return Document.of(Response(URL, 200, headers, b"x", "x", started_at=1_767_323_000_000, elapsed_ms=500)).at

    assert at(date="Fri, 02 Jan 2026 03:04:05 GMT") == AT
    assert at() == at(date="no date") == datetime.fromtimestamp(1_767_323_000.5, UTC)
    assert Document("x", URL).at is None


def test_rows_of_a_page_are_dated_from_its_answer() -> None:
    source = made(LISTED + "\n    published: {css: em, then: [{datetime: auto}]}\n")
    page = "<ul class=list><li><a href=/1.html>a</a><em>3小时前</em><li><a href=/2.html>b</a><em>12-31</em></ul>"
    answer = Response(URL, 200, {"date": "Fri, 02 Jan 2026 03:04:05 GMT"}, page.encode(), page)
    found = source.read_page(source.listings()[0], answer, None)
    times = [entry.fields["published"] for entry in found.entries]
    assert times == ["2026-01-02T08:00:00+08:00", "2025-12-31T00:00:00+08:00"]
    assert found.entries[0].published_at == 1_767_312_000_000
