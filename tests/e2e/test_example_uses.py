"""The five uses that Fyke is made for, each as an example: it loads, and reads the pages in its own header comment."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from fyke.model import Entry, Outcome, Response
from fyke.sources.loader import load_file
from fyke.sources.source import FileSource

USES: Final = Path(__file__).resolve().parents[2] / "examples" / "uses"
NAMES: Final = ("government", "shop", "opinion", "company", "tenants")
NOON: Final = datetime(2025, 11, 28, 4, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FYKE_SECRET_SAAS_TOKEN", "t0p")


def loaded(name: str) -> FileSource:
    found = load_file(USES / f"{name}.yaml")
    assert found.warnings == []
    return found.source


def pages(name: str) -> list[Response]:
    """The pages of the header comment, as if they had been answered at noon in Shanghai."""
    text = (USES / f"{name}.yaml").read_text(encoding="utf-8")
    comment = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    found = []
    for part in re.split(r"^# Page ", comment, flags=re.MULTILINE)[1:]:
        url, _, body = part.partition("\n")
        page = "\n".join(line.removeprefix("#").strip() for line in body.splitlines())
        found.append(Response(url, 200, {"date": NOON.strftime("%a, %d %b %Y %H:%M:%S GMT")}, page.encode(), page))
    assert found
    return found


def entries(source: FileSource, page: Response) -> list[Entry]:
    listing = source.listings()[0]
    assert source.list_request(listing, None).url == page.url
    read = source.read_page(listing, page, None)
    assert (read.outcome, read.reason, read.refused, read.flags) == (Outcome.OK, "", [], [])
    return read.entries


def test_there_is_one_example_for_each_use() -> None:
    assert {path.stem for path in USES.glob("*.yaml")} == set(NAMES)


def test_government_notices_with_files_and_corrections() -> None:
    source = loaded("government")
    listed, detail = pages("government")
    found = entries(source, listed)
    assert [(entry.key, entry.pinned) for entry in found] == [("100", True), ("2002", False), ("2001", False)]
    assert source.detail_request(0, found[2].fields).url == detail.url
    read = source.read_detail(0, detail, found[2].fields)
    assert (read.outcome, read.flags) == (Outcome.OK, [])
    assert [file["url"] for file in read.attachments] == ["https://gov.example/files/2001.pdf"]
    record, digest, _ = source.record(found[2].fields, read.fields)
    assert (record["buyer"], record["budget"], record["project_no"]) == ("市体育中心", "569800", "TYZX-2025-031")
    again = Response(detail.url, 200, {}, b"", detail.text.replace("浏览次数：128", "浏览次数：129"))
    assert source.record(found[2].fields, source.read_detail(0, again, found[2].fields).fields)[1] == digest
    corrected = source.relations(record | {"title": found[1].fields["title"]})
    assert [relation.kind for relation in corrected or () if relation.kind] == ["corrects"]


def test_prices_of_a_shop_are_versions_of_its_products() -> None:
    source = loaded("shop")
    (page,) = pages("shop")
    one, other = entries(source, page)
    assert (one.key, one.fields["price"], one.fields["in_stock"]) == ("A-100", "1299.00", True)
    assert (other.fields["sale_price"], other.fields["url"]) == ("79.90", "https://shop.example/p/a-101")
    cheaper = Response(page.url, 200, {}, b"", page.text.replace("1.299,00", "1.199,00"))
    changed, same = entries(source, cheaper)
    assert (changed.key, changed.hash == one.hash, same.hash == other.hash) == ("A-100", False, True)


def test_opinions_have_one_key_whatever_word_found_them_and_times_of_the_answer() -> None:
    source = loaded("opinion")
    (page,) = pages("opinion")
    first, second = entries(source, page)
    assert [first.key, second.key] == ["t-901", "t-877"]
    assert first.fields["published"] == "2025-11-28T09:00:00+08:00"
    assert second.fields["published"] == "2025-11-27T06:30:00+08:00"
    assert (first.fields["views"], first.fields["url"]) == ("12000", "https://forum.example/t/901")
    assert source.read_page(source.listings()[1], page, None).entries[0].key == first.key
    more = Response(page.url, 200, page.headers, b"", page.text.replace("1.2万", "1.3万").replace("s=81f0", "s=77"))
    assert entries(source, more)[0].hash == first.hash


def test_announcements_of_companies_are_asked_by_company_and_corrections_are_related() -> None:
    source = loaded("company")
    (page,) = pages("company")
    assert [source.list_request(one, None).json for one in source.listings()] == [
        {"stock": "600600", "page": 1, "size": 30},
        {"stock": "000001", "page": 1, "size": 30},
    ]
    corrected, original = entries(source, page)
    assert corrected.fields["published"] == "2020-09-04T00:00:00+08:00"
    assert original.url == "https://static.exchange.example/finalpage/2020-08-31/1208345383.PDF"
    assert [relation.kind for relation in corrected.relations or () if relation.kind] == ["corrects"]
    read = source.read_page(source.listings()[0], page, None)
    assert (read.total_hint, read.last_by_hint) == (31, False)


def test_tenants_are_found_anew_and_each_has_its_own_list_and_keys() -> None:
    source = loaded("tenants")
    directory, changes = pages("tenants")
    found = source.read_listings(source.listings()[0], directory)
    assert [listing.values for listing in found.listings] == [{"tenant": "acme"}, {"tenant": "globex"}]
    acme, globex = found.listings
    assert source.list_request(acme, None).url == changes.url
    read = source.read_page(acme, changes, None)
    assert [entry.key for entry in read.entries] == ["acme/7", "acme/6"]
    assert source.list_request(acme, read.next).url == f"{changes.url}?cursor=c2l4"
    assert source.read_page(globex, changes, None).entries[0].key == "globex/7"
    assert source.fetch.headers == {"Authorization": "Bearer t0p"}
    assert "t0p" not in source.resolved.text
