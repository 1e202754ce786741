"""The arithmetic of `fyke lab modes`: what is called doubled, lost and fetched again."""

import pytest

from fyke.errors import UsageError
from fyke.lab.modes.catalogue import MODES
from fyke.lab.modes.measure import pick
from fyke.lab.modes.report import Outcome, cells, judge, markdown, share
from fyke.lab.modes.stage import key_of


def judged(rows: list[str], hits: dict[str, int], seconds: float = 2.0) -> Outcome:
    return judge("m", "M", truth=["1", "2", "3", "4"], rows=rows, hits=hits, seconds=seconds, kills=0, finished=True)


def test_each_row_too_many_is_a_doubled_one_and_no_lost_one() -> None:
    one = judged(["1", "2", "2", "2", "3", "4"], {"/a": 1})
    assert (one.rows, one.doubled, one.lost) == (6, 2, 0)


def test_an_item_without_a_row_is_lost_however_often_others_were_stored() -> None:
    one = judged(["1", "1", "1", "1"], {"/a": 4})
    assert (one.doubled, one.lost) == (3, 3)


def test_a_page_fetched_again_counts_once_for_each_time_after_the_first() -> None:
    one = judged(["1", "2", "3", "4"], {"/a": 1, "/b": 3, "/c": 2, "/d": 1})
    assert (one.fetches, one.extra_fetches) == (7, 3)


def test_the_rate_counts_items_that_are_stored_not_rows_and_not_requests() -> None:
    assert judged(["1", "1", "2"], {"/a": 9}, seconds=4.0).per_second == 0.5
    assert judged([], {}, seconds=0.0).per_second == 0.0


def test_a_small_share_is_not_rounded_to_nothing() -> None:
    assert [share(0, 400), share(1, 400), share(8, 400), share(800, 400)] == ["0", "0.25 %", "2.0 %", "200 %"]


def test_a_mode_that_could_not_be_run_says_why_and_shows_no_figure() -> None:
    one = Outcome("m", "M", 0, 4, 0, 0, 0, 0, 0, 0.0, missing="no Redis here")
    assert cells(one) == ("M", "", "", "", "", "not run: no Redis here")


def test_the_table_of_the_docs_has_a_line_for_each_outcome_and_as_many_cells_as_its_head() -> None:
    lines = markdown([judged(["1"], {}), judged([], {})]).splitlines()
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {7}


def test_an_unknown_mode_is_refused_with_the_names_that_there_are() -> None:
    assert pick([]) == list(MODES)
    assert [mode.name for mode in pick(["fyke-sql", "file"])] == ["fyke-sql", "file"]
    with pytest.raises(UsageError, match="redis-lua"):
        pick(["redis"])


def test_the_key_is_the_number_in_the_address() -> None:
    assert key_of("../detail/t20261120_25000017.html") == "25000017"
