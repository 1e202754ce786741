"""A source written as a class behaves as one made from a file."""

from pathlib import Path

import pytest

from fyke.errors import UsageError
from fyke.model import Outcome
from fyke.sources.compile import compile_text
from fyke.sources.loader import load_file, load_folder
from tests.unit.sources.making import response

MODULE = """
from fyke.sources import Misfit, PythonSource


class Bulletin(PythonSource):
    settings = {
        "id": "bulletin",
        "schedule": {"timezone": "UTC"},
        "listing": {
            "request": {"url": "https://site.example/{page}.txt"},
            "pages": {"number": {"first": 1}},
            "fields": {
                "id": {"required": True},
                "published": {"type": "datetime"},
                "amount": {"type": "number", "optional": True},
                "shout": {"template": "{id}!", "optional": True},
            },
        },
        "identity": {"scope": "site.example", "key": {"field": "id"}},
        "detail": {
            "steps": [{"request": {"url": "https://site.example/{id}"}, "fields": {"body": {"required": True}}}],
        },
        "store": {"table": "bulletin"},
    }

    def rows(self, page, listing):
        if "maintenance" in page.text:
            raise Misfit("the site is down")
        for line in page.text.splitlines():
            number, day, amount = line.split(";")
            yield {"id": number, "published": day, "amount": amount, "pinned": day == "top"}

    def visit(self, step, page, fields):
        return {"body": page.text.strip() and f"{step} {fields['id']} {page.text}"}


class _NotOne:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bulletins.py").write_text(MODULE)
    (tmp_path / "only_steps.py").write_text("raise RuntimeError('a module of steps is not imported')")
    return tmp_path


def test_a_class_in_the_folder_is_a_source(folder: Path) -> None:
    (found,) = load_folder(folder)
    source = found.source
    (listing,) = source.listings()
    assert source.list_request(listing, {"page": 3}).url == "https://site.example/3.txt"
    page = source.read_page(listing, response("7;2025-01-02;1,000.50\n8;top;\n;2025-01-01;\n"), None)
    assert [(entry.key, entry.url, entry.lane, entry.pinned, entry.fields) for entry in page.entries] == [
        (
            "7",
            "https://site.example/7",
            "site.example",
            False,
            {"id": "7", "published": "2025-01-02T00:00:00+00:00", "amount": "1000.50", "shout": "7!"},
        ),
        ("8", "https://site.example/8", "site.example", True, {"id": "8", "shout": "8!"}),
    ]
    assert [refused.reason for refused in page.refused] == ["the required field 'id' has no value"]
    assert page.next == {"page": 2}
    detail = source.read_detail(0, response("text"), {"id": "7"})
    assert (detail.outcome, detail.fields) == (Outcome.OK, {"body": "0 7 text"})


def test_what_the_author_s_code_raises_is_an_outcome(folder: Path) -> None:
    source = load_folder(folder)[0].source
    (listing,) = source.listings()
    broken = source.read_page(listing, response("no semicolons"), None)
    assert (broken.outcome, broken.reason[:43]) == (Outcome.ERROR, "field 'rows', step python: ValueError: not ")
    assert source.read_page(listing, response("maintenance"), None).outcome is Outcome.MISFIT
    assert source.read_detail(0, response("text"), {}).outcome is Outcome.ERROR


def test_a_file_names_the_class_and_its_words_win(folder: Path) -> None:
    path = folder / "mine.yaml"
    path.write_text("id: mine\nsource: bulletins:Bulletin\nstore: {table: other}\n")
    resolved = load_file(path).source.resolved
    assert (resolved.id, resolved.table, resolved.scope) == ("mine", "other", "site.example")


def test_the_ledger_s_text_is_enough_for_a_worker(folder: Path) -> None:
    source = load_folder(folder)[0].source
    again = compile_text(source.resolved.text)
    assert again.resolved == source.resolved
    assert type(again).__name__ == "Bulletin"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bulletins:Buletin", "did you mean 'Bulletin'"),
        ("bulletins:_NotOne", "is no PythonSource"),
        ("bulletins:", "names no Python"),
        ("nowhere_at_all:X", "is not beside the source file"),
    ],
)
def test_a_class_that_is_none_is_a_mistake_with_its_line(folder: Path, name: str, message: str) -> None:
    path = folder / "mine.yaml"
    path.write_text(f"id: mine\nsource: '{name}'\n")
    with pytest.raises(UsageError, match=f"mine.yaml:2: source: .*{message}"):
        load_file(path)


def test_a_module_that_raises_is_a_mistake_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from fyke.sources import PythonSource\n1 / 0\n")
    with pytest.raises(UsageError, match=r"broken.py cannot be imported: ZeroDivisionError"):
        load_folder(tmp_path)


def test_a_source_with_details_needs_a_method_that_reads_them(tmp_path: Path) -> None:
    text = MODULE[: MODULE.index("    def visit")]
    (tmp_path / "half.py").write_text(text)
    found = load_folder(tmp_path)[0].source.read_detail(0, response("x"), {"id": "1"})
    assert found.outcome is Outcome.ERROR
    assert "no method visit" in found.reason
