"""Small sources and pages for the tests of reading."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from fyke.model import Fields, ListPage, Response
from fyke.sources.compile import compile_source
from fyke.sources.loader import load_file
from fyke.sources.source import FileSource
from fyke.sources.yamlfile import parse_yaml

URL = "https://site.example/news/list.html"

HEAD = """
id: site
identity: {scope: site.example, key: {field: id}}
store: {table: news}
"""

LISTED = """
listing:
  request: {url: "https://site.example/news/list.html"}
  rows: {in: ul.list, css: "> li"}
  fields:
    id: {css: "a::attr(href)", then: [{regex: '(\\d+)\\.html'}]}
    title: {css: a}
"""


def made(text: str, *, head: str = HEAD, folder: Path | None = None) -> FileSource:
    """A source of YAML text, with id, identity and store added."""
    data, _ = parse_yaml(head + textwrap.dedent(text), "site.yaml")
    return compile_source(data, folder=str(folder) if folder else None)


def loaded(folder: Path, text: str, name: str = "site.yaml") -> FileSource:
    """A source of a file that holds this text."""
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return load_file(path).source


def response(text: str, url: str = URL) -> Response:
    return Response(url, 200, {}, text.encode(errors="surrogatepass"), text)


def read(source: FileSource, text: str, url: str = URL, cursor: dict[str, Any] | None = None) -> ListPage:
    return source.read_page(source.listings()[0], response(text, url), cursor)


def entries(source: FileSource, text: str, url: str = URL) -> list[Fields]:
    """The fields of each entry of a page that fits and has no refused rows."""
    page = read(source, text, url)
    assert (page.outcome, page.reason, page.refused) == ("ok", "", [])
    return [entry.fields for entry in page.entries]


def field_of(spec: str, page: str, url: str = URL, *, zone: str = "Asia/Shanghai") -> Any:
    """What one field of a detail page is; `spec` is the field as a source file writes it."""
    source = made(
        f"""
        schedule: {{timezone: {zone}}}
        {LISTED.strip().replace(chr(10), chr(10) + " " * 8)}
        detail:
          steps:
            - request: {{url: "https://site.example/{{id}}.html"}}
              fields: {{wanted: {spec}, other: {{css: html, then: [html]}}}}
        """
    )
    read_page = source.read_detail(0, response(page, url), {"id": "1"})
    assert (read_page.outcome, read_page.reason) == ("ok", "")
    return read_page.fields.get("wanted")
