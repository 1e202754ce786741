"""CPU time of the pure reading of lab pages, beside the bare parse of the same pages. Loopback and clock are not in it.

`python bench/reading.py` prints microseconds a detail (15 KB, 5 fields), a wide detail (15 KB, 10 CSS and 3 XPath
fields), a list page (50 rows, 3 fields) and such a page in the ledger and offered: the best of several rounds of
process time for each page, for other programs share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Callable

from bare import FIELDS
from large import ADDRESSES, ENTRIES, large_pages
from listing import offered
from run import SLOTS, SOURCE
from selectolax.lexbor import LexborHTMLParser

from fyke.fetchers import decode
from fyke.lab import pages
from fyke.lab.truth import Board, SiteConfig
from fyke.model import Outcome, Response
from fyke.policy.blocks import find_block
from fyke.sources.compile import compile_source
from fyke.sources.source import FileSource
from fyke.sources.yamlfile import parse_yaml

BASE = "http://127.0.0.1:8000"
DETAIL_BYTES = 15_000
ROWS = 50
WIDE_AIM_US, OFFERED_AIM_US = 700, 5_000
WIDE = """
        title: {css: h1, required: true}
        buyer: {css: "table.info tr:nth-child(1) td"}
        budget: {css: "table.info tr:nth-child(2) td", then: [{money: CNY}]}
        project_no: {css: "table.info tr:nth-child(3) td"}
        published: {css: "table.info tr:nth-child(4) td", then: [{datetime: "%Y-%m-%d %H:%M"}]}
        channel: {css: "div.location a:nth-child(2)"}
        channel_url: {css: "div.location a:nth-child(2)::attr(href)", then: [absolute_url]}
        charset: {css: "meta::attr(content)", then: [{regex: 'charset=(.+)'}]}
        first_line: {css: "div#content p"}
        body_text: {css: "div#content"}
        head: {xpath: "//title"}
        label: {xpath: "//table[@class='info']//tr[3]/th"}
        home: {xpath: "string(//div[@class='location']/a[1]/@href)"}
"""
ROUNDS = 100
WALKS = 15


def best(works: dict[str, Callable[[Response], object]], shown: list[Response]) -> dict[str, float]:
    """Microseconds of CPU a page: of each page the quickest round counts. The works take turns, for a machine that
    others use is slow for seconds.
    """
    least = {name: [float("inf")] * len(shown) for name in works}
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, work in works.items():
                times = least[name]
                for at, answer in enumerate(shown):
                    began = time.process_time_ns()
                    work(answer)
                    times[at] = min(times[at], time.process_time_ns() - began)
    finally:
        gc.enable()
    return {name: sum(times) / len(shown) / 1_000 for name, times in least.items()}


def response(url: str, text: str) -> Response:
    body, content_type = pages.encoded(text, gbk=False)
    read = decode(body, content_type)
    return Response(url, 200, {"content-type": content_type}, body, *read)


def bare_detail(answer: Response) -> None:
    page = LexborHTMLParser(answer.body)
    for field in FIELDS:
        node = page.css_first(field)
        if node is not None:
            node.text(strip=True)


def bare_list(answer: Response) -> None:
    for row in LexborHTMLParser(answer.body).css("ul.list > li"):
        link = row.css_first("a")
        if link is not None:
            link.attributes.get("href")
            link.attributes.get("title")
        date = row.css_first("em")
        if date is not None:
            date.text(strip=True)


def wide_source() -> FileSource:
    head, _, rest = SOURCE.partition("        title: {{css: h1")
    text = (head + rest[rest.index("store:") :]).replace("      fields:\nstore:", "      fields:WIDEstore:")
    text = text.format(url=BASE, slots=SLOTS).replace("WIDE", WIDE)
    return compile_source(parse_yaml(text, "wide.yaml")[0], folder=None)


def made_source() -> FileSource:
    text = SOURCE.format(url=BASE, slots=SLOTS).replace(
        "  connect: all", '    published: {css: em, then: [{datetime: "%Y-%m-%d %H:%M"}]}\n  connect: all'
    )
    data, _ = parse_yaml(text, "bench.yaml")
    return compile_source(data, folder=None)


def measure(details: int, lists: int) -> dict[str, float]:
    board = Board(SiteConfig(items=max(details, lists * ROWS), per_page=ROWS))
    notices = [notice for number in range(1, board.pages + 1) for notice in board.rows(number) if notice.linked]
    filler = pages.filler(DETAIL_BYTES - len(pages.PARAGRAPH) * 4)
    shown = [
        response(BASE + notice.path, pages.detail_html(notice, None, filler, 1, poison=False))
        for notice in notices[:details]
    ]
    listed = [
        response(
            BASE + pages.list_path(number),
            pages.list_html(board.rows(number), 0, number, board.pages, board.total, 1),
        )
        for number in range(1, lists + 1)
    ]
    source = made_source()
    listing = source.listings()[0]
    read = [source.read_page(listing, answer, None) for answer in listed]
    assert all(page.outcome is Outcome.OK and len(page.entries) == ROWS for page in read)
    entry = read[0].entries[0].fields
    found = [source.read_detail(0, answer, entry) for answer in shown]
    assert all(page.outcome is Outcome.OK and len(page.fields) == len(FIELDS) for page in found)

    def both(answer: Response) -> None:
        source.record(entry, source.read_detail(0, answer, entry).fields)

    def before(answer: Response) -> None:
        find_block(200, decode(answer.body, answer.headers["content-type"]).text)

    wide = wide_source()
    for answer in shown:
        page = wide.read_detail(0, answer, entry)
        assert (page.outcome, len(page.fields), page.flags) == (Outcome.OK, 13, []), page

    figures = best(
        {
            "detail_wide": lambda answer: wide.record(entry, wide.read_detail(0, answer, entry).fields),
            "detail_bare": bare_detail,
            "detail_read": lambda answer: source.read_detail(0, answer, entry),
            "detail_read_and_record": both,
            "detail_decode_and_marks": before,
        },
        shown,
    )
    figures |= best(
        {"list_bare": bare_list, "list_read": lambda answer: source.read_page(listing, answer, None)}, listed
    )
    figures["bytes_of_a_detail"] = sum(len(answer.body) for answer in shown) / details
    figures["detail_ratio"] = figures["detail_read_and_record"] / figures["detail_bare"]
    # Each walk has a source and a ledger of its own: what they remember of times and rows is not of these pages.
    walks = [asyncio.run(offered(made_source(), listed, "127.0.0.1:8000")) for _ in range(WALKS)]
    figures["list_offered"] = sum(map(min, zip(*walks, strict=True))) / lists
    figures |= large_pages()
    figures["list_row"] = figures["list_read"] / ROWS
    figures["list_ratio"] = figures["list_read"] / figures["list_bare"]
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(details=20, lists=10)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        tell_reading(figures)
    return 0


def tell_reading(figures: dict[str, float]) -> None:
    print(
        f"reading:     detail of {figures['bytes_of_a_detail'] / 1000:.1f} KB, 5 fields: "
        f"{figures['detail_read_and_record']:.0f} µs with its record, {figures['detail_read']:.0f} µs without; "
        f"bare parse {figures['detail_bare']:.0f} µs; "
        f"decoding and block marks {figures['detail_decode_and_marks']:.0f} µs"
    )
    print(
        f"             10 CSS and 3 XPath fields: {figures['detail_wide']:.0f} µs with its record (aim {WIDE_AIM_US})"
    )
    print(
        f"             list of {ROWS} rows: {figures['list_read']:.0f} µs, bare {figures['list_bare']:.0f} µs; "
        f"read, written and offered, all new: {figures['list_offered']:.0f} µs (aim {OFFERED_AIM_US})"
    )
    print(
        f"             sitemap of {ADDRESSES:,} addresses {figures['sitemap_s']:.2f} s, "
        f"broken feed of {ENTRIES:,} entries {figures['broken_feed_s']:.2f} s"
    )


if __name__ == "__main__":
    raise SystemExit(main())
