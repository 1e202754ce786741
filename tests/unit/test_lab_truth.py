from collections.abc import Iterator

import pytest

from fyke.lab.truth import CORRECTION, Board, SiteConfig


def walk(board: Board) -> Iterator[list[str]]:
    for page in range(1, board.pages + 1):
        yield [notice.id for notice in board.rows(page)]


def test_the_same_seed_announces_the_same() -> None:
    config = SiteConfig(seed=5, items=120, pinned=2, linkless=2, dead=3, poison=1, private=1)
    assert Board(config).truth() == Board(config).truth()
    assert Board(config).truth() != Board(SiteConfig(seed=6, items=120)).truth()


def test_a_later_notice_reads_the_same_whatever_was_changed_before_it_came() -> None:
    plain, changed = Board(SiteConfig(items=50)), Board(SiteConfig(items=50))
    changed.edit(20)
    changed.remove(5)
    assert [plain.notices[key] for key in plain.add(30)] == [changed.notices[key] for key in changed.add(30)]


def test_ids_are_unique_newest_is_first_and_ids_do_not_give_the_order() -> None:
    board = Board(SiteConfig(items=2_000))
    listed = [key for page in walk(board) for key in page]
    assert len(set(listed)) == len(listed) == 2_000
    times = [board.notices[key].published for key in listed]
    assert times == sorted(times, reverse=True)
    assert listed != sorted(listed, reverse=True)


def test_titles_are_unique_but_for_a_few_twins_that_are_other_notices() -> None:
    board = Board(SiteConfig(items=2_000, same_title=0.02))
    titles = [notice.title for notice in board.notices.values()]
    assert 10 < len(titles) - len(set(titles)) < 100
    without = Board(SiteConfig(items=2_000, same_title=0))
    assert len({notice.title for notice in without.notices.values()}) == 2_000


def test_a_correction_is_an_item_of_its_own_with_the_project_number_of_its_original() -> None:
    board = Board(SiteConfig(items=400, corrections=0.2))
    corrections = [notice for notice in board.notices.values() if notice.corrects]
    assert corrections
    for notice in corrections:
        original = board.notices[notice.corrects or ""]
        assert notice.id != original.id
        assert notice.project_no == original.project_no
        assert notice.title.endswith(CORRECTION)


def test_pinned_rows_stand_on_every_page_and_only_there() -> None:
    board = Board(SiteConfig(items=100, per_page=10, pinned=3))
    pages = list(walk(board))
    assert [page[:3] for page in pages] == [board.pinned] * len(pages)
    own = [key for page in pages for key in page[3:]]
    assert len(own) == len(set(own)) == 97
    assert not set(own) & set(board.pinned)


def test_no_rows_before_the_first_page_or_beyond_the_last() -> None:
    board = Board(SiteConfig(items=41, per_page=20, pinned=1))
    assert board.pages == 2
    assert [len(board.rows(page)) for page in (0, 1, 2, 3)] == [0, 21, 21, 0]


def test_an_addition_moves_rows_down_and_a_removal_moves_them_up() -> None:
    board = Board(SiteConfig(items=40, per_page=10))
    before = [key for page in walk(board) for key in page]
    new = board.add(2)
    assert [key for page in walk(board) for key in page] == [*reversed(new), *before]
    (gone,) = board.remove([before[5]])
    assert gone not in {key for page in walk(board) for key in page}
    assert gone in board.truth()["ids"]
    assert board.truth()["removed"] == [gone]


def test_an_edit_raises_the_version_and_changes_what_the_list_shows() -> None:
    board = Board(SiteConfig(items=10))
    (key,) = board.edit(1)
    first = board.notices[key]
    board.edit([key])
    second = board.notices[key]
    assert (first.version, second.version) == (2, 3)
    assert first.title.endswith("（第2次修改）")
    assert second.title == first.title.replace("第2次", "第3次")
    assert first.published == second.published


def test_a_silent_edit_changes_the_detail_only() -> None:
    board = Board(SiteConfig(items=10))
    key = board.rows(1)[0].id
    before = board.notices[key]
    assert board.edit([key], silent=True) == [key]
    after = board.notices[key]
    assert (after.title, after.version) == (before.title, 2)
    assert after.budget != before.budget


def test_special_notices_are_counted_exactly_and_apart() -> None:
    config = SiteConfig(items=60, dead=5, poison=4, private=3, linkless=2, pinned=1)
    truth = Board(config).truth()
    special = [truth["dead"], truth["poison"], truth["private"], truth["pinned"]]
    assert [len(ids) for ids in special] == [5, 4, 3, 1]
    assert len({key for ids in special for key in ids}) == 13
    assert (truth["linkless"], truth["listed_total"], truth["on_list"]) == (2, 58, 60)
    assert set(truth["records"]) == set(truth["ids"])


def test_changes_chosen_by_the_seed_are_chosen_alike() -> None:
    one, other = Board(SiteConfig(items=80)), Board(SiteConfig(items=80))
    for board in (one, other):
        for _ in range(30):
            board.move()
    assert one.truth() == other.truth()
    assert one.truth()["removed"]
    assert any(record["version"] > 1 for record in one.truth()["records"].values())


def test_a_change_of_what_is_not_there_is_refused() -> None:
    board = Board(SiteConfig(items=10))
    (gone,) = board.remove(1)
    for key in (gone, "1"):
        with pytest.raises(ValueError, match=f"no notice {key} on the list"):
            board.edit([key])


@pytest.mark.parametrize(
    ("name", "value"),
    [("busy", 1.5), ("items", -1), ("per_page", 0), ("dead", 301), ("move_kinds", ("swap",)), ("newest", "now")],
)
def test_a_configuration_that_makes_no_site_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        SiteConfig(**{name: value})  # type: ignore[arg-type]


def test_the_demo_takes_changes() -> None:
    assert SiteConfig.demo(items=50, dead=1).items == 50
    assert SiteConfig.demo().dead == 4
