"""What comes after a record: visits on a calendar, what belongs together, the files that its page names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.model import Outcome, Relation, Response
from fyke.policy.attaching import attached_key, keys_under
from fyke.policy.revisits import next_visit
from fyke.sources.attachments import AttachmentSource
from fyke.sources.compile import compile_any, compile_text
from fyke.sources.source import FileSource
from tests.unit.sources.making import LISTED, made, read, response

HOUR, DAY = 3_600_000, 86_400_000
DETAIL = (
    LISTED
    + """
    url: {css: "a::attr(href)", then: [absolute_url]}
detail:
  steps:
    - request: {url: "{url}"}
      fields: {title: {css: h1}, number: {css: i, optional: true}}
"""
)
RELATED = (
    DETAIL
    + """
updates:
  relate: [{title: 更正, by: number, as: corrects}, {title: [中标, 成交], by: number, as: awards}]
"""
)


def detailed(more: str) -> FileSource:
    return made(DETAIL + more)


# --- The calendar ---


def test_ages_are_counted_from_the_first_listing_and_the_last_is_repeated() -> None:
    after, until = (HOUR, DAY, 7 * DAY, 30 * DAY), 60 * DAY
    visits, now = [], 0
    while (found := next_visit(0, now, after, until)) is not None:
        visits.append(found)
        now = found
    assert visits == [HOUR, DAY, 7 * DAY, 30 * DAY, 60 * DAY]
    assert next_visit(0, 30 * DAY, after, None) is None
    # A visit that came late skips what is over.
    assert next_visit(0, 2 * DAY, after, until) == 7 * DAY
    assert next_visit(0, 31 * DAY, after, 45 * DAY) == 45 * DAY


AGES = st.lists(st.integers(1, 100 * DAY), min_size=1, max_size=5, unique=True).map(sorted)


@given(st.integers(0, 2**41), st.integers(0, 400 * DAY), AGES, st.none() | st.integers(0, 400 * DAY))
def test_the_next_visit_is_ahead_and_never_after_the_end(
    opened_at: int, age: int, after: list[int], more: int | None
) -> None:
    until = None if more is None else after[-1] + more
    found = next_visit(opened_at, opened_at + age, after, until)
    if found is None:
        assert age >= (after[-1] if until is None else until)
    else:
        assert age < found - opened_at <= (after[-1] if until is None else until)


def test_a_source_plans_its_visits() -> None:
    source = detailed("updates: {revisit: {after: [1h, 1d], until: 3d}}")
    assert source.revisit_at(1_000, 1_000) == 1_000 + HOUR
    assert source.revisit_at(0, 3 * DAY) is None
    assert detailed("").revisit_at(0, 0) is None


@pytest.mark.parametrize(
    ("revisit", "message"),
    [
        ("{after: [1d, 1h]}", "do not rise"),
        ("{after: [0s]}", "do not rise"),
        ("{after: [1h, 1d], until: 5h}", "before the last"),
        ("{after: []}", "empty"),
        ("{until: 5h}", "'after' is missing"),
        ("{after: [1x]}", "1x"),
    ],
)
def test_a_calendar_that_cannot_be_kept_is_refused(revisit: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        detailed(f"updates: {{revisit: {revisit}}}")


def test_a_source_without_details_has_nothing_to_visit_again() -> None:
    with pytest.raises(UsageError, match="no page behind a row"):
        made(LISTED + "\nupdates: {revisit: {after: 1h}}")


# --- What belongs together ---


def test_a_correction_and_its_original_share_a_number_however_it_is_written() -> None:
    source = made(RELATED)
    correction = source.relations({"title": "某项目更正公告", "number": "JSZC-３２ 0000"})
    original = source.relations({"title": "某项目公告", "number": "jszc-320000"})
    assert correction == [Relation("corrects", "number", "JSZC-320000"), Relation("", "number", "JSZC-320000")]
    assert original == [Relation("", "number", "JSZC-320000")]
    assert source.relations({"title": "更正公告"}) == []
    assert source.relations({"title": "更正公告", "number": " "}) == []
    assert detailed("").relations({"title": "更正公告"}) is None


def test_an_entry_that_is_the_record_brings_its_relations() -> None:
    source = made(LISTED + "\nupdates: {relate: [{title: 更正, by: id, as: corrects}]}")
    page = read(source, "<ul class=list><li><a href=/1.html>更正 a</a><li><a href=/2.html>b</a></ul>")
    assert [entry.relations for entry in page.entries] == [
        [Relation("corrects", "id", "1")],
        [Relation("", "id", "2")],
    ]
    listed = read(made(RELATED), "<ul class=list><li><a href=/1.html>更正 a</a></ul>")
    assert listed.entries[0].relations is None


def test_relating_by_a_field_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no field 'numbr'") as found:
        detailed("updates: {relate: [{title: x, by: numbr, as: corrects}]}")
    assert found.value.hint is not None
    assert "number" in found.value.hint


# --- Attachments ---

FILES = """
  attachments: {css: "#content a::attr(href)", match: '\\\\.(pdf|docx?)$', max_size: 1MB}
"""
PAGE = """
<h1>t</h1><div id=content><a href='/a.PDF'><img src=i.png></a><a href='/a.PDF#p2'>The file</a><a href=b.html>page</a>
<a href="c.docx">c</a><a href=../../../d.pdf title=Fourth></a><a href="javascript:down('/e.pdf')">e</a><a>x</a></div>
<a href=/outside.pdf>no</a>
"""


def with_files() -> FileSource:
    source = detailed(FILES.replace("\\\\", "\\"))
    assert source.attached is not None
    return source


def test_files_that_a_page_names_are_found_once_with_their_names() -> None:
    found = with_files().read_detail(0, response(PAGE), {"id": "1"})
    assert found.attachments == [
        {"url": "https://site.example/a.PDF", "name": "The file"},
        {"url": "https://site.example/news/c.docx", "name": "c"},
        {"url": "https://site.example/d.pdf", "name": "Fourth"},
        {"url": "https://site.example/e.pdf", "name": "e"},
    ]


def test_a_place_on_the_page_itself_is_no_file_of_it() -> None:
    source = detailed("""
  attachments: {css: "#content a"}
""")
    page = "<h1>t</h1><div id=content><a href=' #top'>up</a><a href=#>x</a><a href='/a.pdf#p2'>a</a></div>"
    found = source.read_detail(0, response(page), {"id": "1"})
    assert [one["url"] for one in found.attachments] == ["https://site.example/a.pdf"]


def test_a_page_that_does_not_fit_names_no_files() -> None:
    found = with_files().read_detail(0, response("<div id=content><a href=/a.pdf>x</a></div>"), {"id": "1"})
    assert (found.outcome, found.attachments) == (Outcome.MISFIT, [])


def test_thousands_of_files_are_a_misfit_not_a_part() -> None:
    links = "".join(f"<a href={number}.pdf>x</a>" for number in range(1_001))
    found = with_files().read_detail(0, response(f"<h1>t</h1><div id=content>{links}</div>"), {"id": "1"})
    assert (found.outcome, found.attachments) == (Outcome.MISFIT, [])
    assert "more than 1,000 attachments" in found.reason


def attached() -> AttachmentSource:
    source = compile_any(with_files().resolved.text)
    assert isinstance(source, FileSource)
    assert source.attached is not None
    again = compile_any(source.attached.resolved.text)
    assert isinstance(again, AttachmentSource)
    assert again.resolved == source.attached.resolved
    return again


def test_attachments_are_items_of_a_source_that_is_made_from_their_pages_source() -> None:
    source = attached()
    resolved = source.resolved
    assert (resolved.id, resolved.scope, resolved.table) == (
        "site.attachments",
        "site.example/attachments",
        "news_attachments",
    )
    assert (source.listings(), source.steps, source.fetch.max_body) == ([], 1, 1_000_000)
    with pytest.raises(UsageError, match="takes attachments only"):
        compile_text(resolved.text)


ENTRY = {"parent": "1", "page": "https://site.example/1.html", "name": "The file", "url": "https://site.example/a.PDF"}


def answer(body: bytes, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response("https://site.example/a.PDF", 200, named, body, "")


def test_a_file_is_recorded_with_its_size_type_and_hash() -> None:
    source = attached()
    assert source.detail_request(0, ENTRY).headers == {"Referer": "https://site.example/1.html"}
    disposition = "attachment; filename*=UTF-8''%E5%85%AC%E5%91%8A.pdf"
    found = source.read_detail(
        0, answer(b"%PDF-1.4 x", content_type="application/pdf; x=y", content_disposition=disposition), ENTRY
    )
    record, record_hash, filled = source.record(ENTRY, found.fields)
    assert record.pop("sha256") == "fc022288f3e49d09353987de1c32fc1427bd2a8b3657a340e86efb8e34efe003"
    assert record == {
        "parent": "1",
        "name": "The file",
        "url": "https://site.example/a.PDF",
        "file_name": "公告.pdf",
        "media_type": "application/pdf",
        "size": 10,
    }
    assert (len(record_hash), all(filled.values())) == (16, True)
    other = source.read_detail(0, answer(b"%PDF-1.4 y", content_type="application/pdf"), ENTRY)
    assert source.record(ENTRY, other.fields)[1] != record_hash


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b"", Outcome.EMPTY),
        (b"\n<!DOCTYPE html><html>please log in</html>", Outcome.MISFIT),
        (b"%PDF-1.4", Outcome.OK),
    ],
)
def test_a_web_page_in_place_of_a_file_is_no_file(body: bytes, outcome: Outcome) -> None:
    assert attached().read_detail(0, answer(body, content_type="text/html"), ENTRY).outcome is outcome


@given(st.text("ab/ 公", min_size=1, max_size=120), st.text("xyz%?=&", max_size=300))
def test_keys_of_attachments_stand_under_their_item_and_fit(parent: str, rest: str) -> None:
    parent = f"k{parent.strip()}k"
    key = attached_key(parent, f"https://site.example/{rest}")
    assert len(key.encode()) <= 255
    assert key == attached_key(parent, f"http://site.example/{rest}")
    first, behind = keys_under(parent)
    assert first <= key < behind or key.startswith("sha256:")
