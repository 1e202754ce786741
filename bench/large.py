"""CPU of the largest pages that a list may be: a sitemap of 50,000 addresses, a broken feed of 20,000 entries."""

from __future__ import annotations

import time

from fyke.model import Outcome, Response
from fyke.sources.compile import compile_source
from fyke.sources.yamlfile import parse_yaml

ADDRESSES, ENTRIES = 50_000, 20_000
ROUNDS = 3
WEB = "https://site.example/large"
SOURCE = """
id: large
listing: {{request: {{url: "https://site.example/large"}}, rows: {rows}, fields: {fields}, connect: all}}
identity: {{scope: large, key: {{field: url}}}}
store: {{table: large}}
"""


def sitemap() -> str:
    urls = "".join(
        f"<url><loc>https://site.example/a/b/{n}.html</loc>"
        f"<lastmod>2025-01-{n % 28 + 1:02}T{n % 24:02}:{n % 60:02}:{n // 1000 % 60:02}+08:00</lastmod></url>\n"
        for n in range(ADDRESSES)
    )
    return f"<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{urls}</urlset>"


def feed() -> str:
    """Bare ampersands in its titles, and it ends without its end tags."""
    return "<rss version='2.0'><channel><title>x</title>" + "".join(
        f"<item><title>Title {n} & more</title><link>https://site.example/{n}</link>"
        f"<pubDate>Mon, 06 Jan 2025 {n % 24:02}:{n % 60:02}:00 GMT</pubDate>"
        f"<description>&lt;p&gt;text {n}&lt;/p&gt;</description></item>\n"
        for n in range(ENTRIES)
    )


def seconds(rows: str, fields: str, text: str, expected: int) -> float:
    """The quickest of some rounds."""
    source = compile_source(parse_yaml(SOURCE.format(rows=rows, fields=fields), "large.yaml")[0], folder=None)
    answer = Response(WEB, 200, {}, text.encode(), text, "utf-8", "utf-8", 0)
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        page = source.read_page(source.listings()[0], answer, None)
        found.append(time.process_time() - began)
        assert (page.outcome, len(page.entries)) == (Outcome.OK, expected), page.reason
    return min(found)


def large_pages() -> dict[str, float]:
    return {
        "sitemap_s": seconds("{sitemap: urls}", "{url: {sitemap: loc}, at: {sitemap: lastmod}}", sitemap(), ADDRESSES),
        "broken_feed_s": seconds(
            "{feed: entries}",
            "{url: {feed: link}, title: {feed: title}, published: {feed: published}, body: {feed: summary}}",
            feed(),
            ENTRIES,
        ),
    }
