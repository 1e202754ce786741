"""`each.discover`: the site names the values; a page that names none is never a source without lists."""

import pytest

from fyke.errors import UsageError
from fyke.lab.recorded import ListRead, NotRecorded, walk_lists
from fyke.model import FoundListings, Outcome, Request, Response
from fyke.sources.compile import compile_text
from fyke.sources.source import FileSource
from tests.unit.sources.making import HEAD, made

NAV = "https://site.example/nav"
SOURCE = """
each:
{fixed}  discover:
    request: {{url: "https://site.example/nav{query}"}}
    rows: {{in: ul.nav, css: "> li"}}
    fields: {{channel: {{css: "a::attr(href)", then: [{{regex: '/(\\w+)/$'}}]}}}}
listing:
  request: {{url: "https://site.example/{{channel}}/{where}{{page}}.html"}}
  pages: {{number: {{first: index}}}}
  rows: {{in: ul, css: "> li"}}
  fields:
    id: {{css: "a::attr(href)"}}
    name: {{template: "in {{channel}}"}}
"""
PLAIN = SOURCE.format(fixed="", query="", where="")
PAGE = '<ul class=nav><li><a href="/news/">News</a><li><a href="/bids/">Bids</a><li><a href="/news/">Again</a></ul>'


def found(source: FileSource, text: str) -> FoundListings:
    return source.read_listings(source.listings()[0], Response(NAV, 200, {}, text.encode(), text))


def test_a_source_that_discovers_has_one_listing_that_stands_for_those_it_finds() -> None:
    source = made(PLAIN)
    (listing,) = source.listings()
    assert (listing.name, listing.values, listing.discovers) == ("each.discover", {}, True)
    assert source.list_request(listing, None).url == NAV
    assert {lane.lane for lane in source.resolved.lanes} == {"*", "site.example"}


def test_the_values_that_the_page_names_make_listings_with_stable_names() -> None:
    source = made(PLAIN)
    page = found(source, PAGE)
    assert (page.outcome, page.refused) == (Outcome.OK, [])
    assert [(each.name, each.values) for each in page.listings] == [
        ("channel=news", {"channel": "news"}),
        ("channel=bids", {"channel": "bids"}),
    ]
    assert source.list_request(page.listings[1], {"page": 2}).url == "https://site.example/bids/1.html"
    text = "<ul><li><a href=/1>x</a></ul>"
    answer = Response("https://site.example/bids/index.html", 200, {}, text.encode(), text)
    assert source.read_page(page.listings[1], answer, None).entries[0].fields == {"id": "/1", "name": "in bids"}


def test_values_of_the_file_and_of_the_site_go_together() -> None:
    source = made(SOURCE.format(fixed="  city: [bj, sh]\n", query="?city={city}", where="{city}/"))
    assert [listing.name for listing in source.listings()] == ["each.discover:city=bj", "each.discover:city=sh"]
    assert source.list_request(source.listings()[1], None).url == f"{NAV}?city=sh"
    listing = found(source, PAGE).listings[0]
    assert (listing.name, listing.values) == ("channel=news,city=bj", {"city": "bj", "channel": "news"})
    assert source.list_request(listing, None).url == "https://site.example/news/bj/index.html"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<p>maintenance</p>", "the container 'ul.nav' is not on the page"),
        ("<ul class=nav></ul>", "finds no value"),
        ("<ul class=nav><li>no link</ul>", "finds no value on the page: the row has no value for 'channel'"),
    ],
)
def test_a_page_that_names_nothing_is_a_misfit_and_never_an_empty_source(text: str, reason: str) -> None:
    page = found(made(PLAIN), text)
    assert (page.outcome, page.listings) == (Outcome.MISFIT, [])
    assert reason in page.reason


def test_a_row_without_a_value_is_refused_and_its_neighbours_stay() -> None:
    page = found(made(PLAIN), PAGE.replace("</ul>", "<li><a href='#'>more</a></ul>"))
    assert (len(page.listings), [row.position for row in page.refused]) == (2, [3])
    assert "no value for 'channel'" in page.refused[0].reason


def test_too_many_values_are_a_misfit() -> None:
    rows = "".join(f'<li><a href="/c{number}/">x</a>' for number in range(10_001))
    assert "more than 10,000" in found(made(PLAIN), f"<ul class=nav>{rows}</ul>").reason


def test_values_of_a_json_answer() -> None:
    source = made(
        PLAIN.replace('{in: ul.nav, css: "> li"}', "{json: list}").replace(
            "{css: \"a::attr(href)\", then: [{regex: '/(\\w+)/$'}]}", "{json: code}"
        )
    )
    assert [each.values for each in found(source, '{"list": [{"code": 600600}, {"code": "000001"}]}').listings] == [
        {"channel": "600600"},
        {"channel": "000001"},
    ]


def test_the_ledger_s_text_gives_the_same_source() -> None:
    source = made(PLAIN)
    assert compile_text(source.resolved.text).resolved == source.resolved


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    request: {url", "    requst: {url", "did you mean 'request'?"),
        ('    rows: {in: ul.nav, css: "> li"}\n', "", "'rows' is missing"),
        ("fields: {channel:", "fields: {page:", "is taken by a placeholder"),
        ("/{channel}/", "/{chanel}/", "did you mean 'channel'?"),
        ("each:\n", "each:\n  channel: [a]\n", "'channel' is taken by a placeholder"),
        ("https://site.example/nav", "https://site.example/{channel}", "{channel} is not known here"),
        ('css: "> li"}\n    fields', 'css: "> li", pinned: x}\n    fields', "the key 'pinned' is not known"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(old: str, new: str, message: str) -> None:
    assert old in PLAIN
    with pytest.raises(UsageError) as caught:
        made(PLAIN.replace(old, new, 1), head=HEAD)
    assert message in str(caught.value)


async def walked(listing: str | None = None, lists: int | None = None) -> list[ListRead]:
    shown = {NAV: PAGE, "https://site.example/bids/index.html": "<ul><li><a href=/1>x</a></ul>"}

    async def fetch(request: Request) -> Response:
        if request.url not in shown:
            raise NotRecorded(request.url)
        return Response(request.url, 200, {}, shown[request.url].encode(), shown[request.url])

    return [one async for one in walk_lists(made(PLAIN), fetch, listing=listing, lists=lists)]


@pytest.mark.parametrize(("listing", "lists"), [(None, None), (None, 2), ("channel=bids", None)])
async def test_recording_and_offline_tests_walk_the_lists_that_the_site_names(
    listing: str | None, lists: int | None
) -> None:
    read = await walked(listing, lists)
    assert [(one.listing, one.read.outcome, len(one.read.entries)) for one in read] == [
        ("each.discover", Outcome.OK, 0),
        ("channel=bids", Outcome.OK, 1),
    ]


async def test_a_list_that_the_site_does_not_name_is_a_mistake_that_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no listing 'channel=bid'.*channel=news, channel=bids"):
        await walked("channel=bid")


def test_pages_in_a_discovery_are_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="'pages' does not stand here: a discovery reads one page"):
        made(PLAIN.replace("    rows: {in: ul.nav", "    pages: {number: {first: 1}}\n    rows: {in: ul.nav"))
