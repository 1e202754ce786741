"""The checker of `fyke lab chaos` finds what is planted, and nothing where nothing is wrong."""

from typing import Any

import pytest
from msgspec.structs import replace

from fyke.lab.chaos.checker import Evidence, Row, Verdict, check
from fyke.model import AuditReport

ATTEMPTS = 3


def evidence() -> Evidence:
    """Four items, one of them poison, all as it must be."""
    records = {
        key: {"title": f"title of {key}", "url": f"http://site/detail/{key}.html", "version": 1}
        for key in ("a", "b", "c", "bad")
    }
    arrivals = [(1.0, "/list/index.html", 200), (2.0, "/detail/a.html", 503)]
    arrivals += [(3.0, f"/detail/{key}.html", 200) for key in ("a", "b", "c", "bad", "bad", "bad")]
    return Evidence(
        truth={"records": records, "poison": ["bad"], "dead": []},
        hits={"arrivals": arrivals, "arrivals_dropped": 0, "detail": {}},
        rows=[Row(key, 1, f"title of {key}") for key in ("a", "b", "c")],
        twice=[],
        audit=AuditReport(
            **{"entries": 4, "new": 4, "known": 0, "refused": 0, "listed": 4, "stored": 3, "dead": 1, "ignored": 0},
            **{"open": 0, "unqueued": 0, "unaccounted": 0, "open_holes": 0},
            by_source={},
            findings=[],
            balanced=True,
        ),
        attempts=ATTEMPTS,
    )


def changed(**values: Any) -> Verdict:
    return check(replace(evidence(), **values))


def test_what_is_right_is_good() -> None:
    verdict = check(evidence())
    assert verdict.good
    assert (verdict.listed, verdict.stored, verdict.dead, verdict.dead_expected) == (4, 3, 1, 1)
    assert verdict.extra_fetches == 0


def test_a_planted_loss_is_named() -> None:
    verdict = changed(rows=evidence().rows[1:])
    assert verdict.lost == ["a"]
    assert not verdict.good


def test_a_planted_second_row_is_a_doubling() -> None:
    verdict = changed(rows=[*evidence().rows, Row("b", 1, "title of b")])
    assert verdict.doubled == ["b"]
    assert not verdict.good


def test_a_row_that_was_written_twice_is_a_doubling_though_it_stands_once() -> None:
    verdict = changed(twice=[("chaos", "c", 1, 2)])
    assert verdict.doubled == ["c"]
    assert not verdict.good


def test_a_version_that_the_site_never_had_is_a_doubling() -> None:
    verdict = changed(rows=[*evidence().rows[:2], Row("c", 2, "title of c")])
    assert verdict.doubled == ["c"]
    assert not verdict.good


@pytest.mark.parametrize(
    "row", [Row("x", 1, "title of x"), Row("bad", 1, "title of bad")], ids=["never listed", "poison"]
)
def test_a_planted_extra_row_is_wrong(row: Row) -> None:
    verdict = changed(rows=[*evidence().rows, row])
    assert verdict.wrong == [row.key]
    assert not verdict.good


def test_a_row_with_the_content_of_another_is_wrong() -> None:
    verdict = changed(rows=[Row("a", 1, "title of b"), *evidence().rows[1:]])
    assert verdict.wrong == ["a"]
    assert not verdict.good


@pytest.mark.parametrize(
    "audit", [{"unaccounted": 1}, {"balanced": False}, {"open": 1}, {"dead": 2}], ids=lambda values: next(iter(values))
)
def test_what_the_audit_finds_is_not_good(audit: dict[str, Any]) -> None:
    assert not changed(audit=replace(evidence().audit, **audit)).good


def test_good_pages_served_once_more_are_counted_and_failed_ones_are_not() -> None:
    arrivals = evidence().hits["arrivals"]
    again = [(4.0, "/detail/a.html", 200), (5.0, "/detail/b.html", 503), (6.0, "/detail/bad.html", 200)]
    verdict = changed(hits={"arrivals": arrivals + again, "arrivals_dropped": 0, "detail": {}})
    assert verdict.extra_fetches == 2
    assert verdict.good


def test_a_log_of_the_site_that_was_full_counts_too_many_rather_than_too_few() -> None:
    hits = {"arrivals": [], "arrivals_dropped": 9, "detail": {"/detail/a.html": 2, "/detail/bad.html": 3}}
    assert changed(hits=hits).extra_fetches == 1
