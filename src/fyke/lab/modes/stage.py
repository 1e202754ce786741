"""What the articles' programs share: where things are, how they read the site, and how a role of theirs is started.

One request at a time in a process, as theirs do it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import aiohttp
import msgspec
from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser

FIRST_PAGE: Final = "/list/index.html"
MOST_PAGES: Final = 10_000


class Place(Struct, frozen=True):
    """Where a mode works: the site, a folder, and the servers it was given."""

    site: str
    folder: str
    redis: str = ""
    database: str = ""


class Row(Struct, frozen=True):
    """A row of the list."""

    key: str
    title: str
    url: str


Role = Callable[[Place, int], Awaitable[Any]]


class Reader:
    """Reads lists and details of the lab site, one after the other."""

    def __init__(self, place: Place) -> None:
        self._site = place.site
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Reader:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def rows(self) -> AsyncIterator[Row]:
        """Every row of the list, page after page."""
        url = self._site + FIRST_PAGE
        for _ in range(MOST_PAGES):
            page = LexborHTMLParser(await self._text(url))
            for link in page.css("ul.list > li > a"):
                href = link.attributes.get("href") or ""
                yield Row(key_of(href), link.attributes.get("title") or "", urljoin(url, href))
            following = page.css_first("a.next")
            if following is None:
                return
            url = urljoin(url, following.attributes.get("href") or "")

    async def detail(self, row: Row) -> str:
        """The buyer's name on the detail page."""
        cell = LexborHTMLParser(await self._text(row.url)).css_first("table.info td")
        return cell.text(strip=True) if cell is not None else ""

    async def _text(self, url: str) -> bytes:
        assert self._session is not None
        async with self._session.get(url) as response:
            response.raise_for_status()
            return await response.read()


def key_of(href: str) -> str:
    """The number in an address such as ``/detail/t20261120_25000000.html``."""
    return href.rpartition("_")[2].removesuffix(".html")


def play(roles: Mapping[str, Role]) -> None:
    """Run one role: ``python -m MODULE PLACE_FILE ROLE NUMBER``. What it returns is printed as JSON."""
    file, role, number = sys.argv[1:4]
    place = msgspec.json.decode(Path(file).read_bytes(), type=Place)
    answer = asyncio.run(_awaited(roles[role], place, int(number)))
    if answer is not None:
        print(json.dumps(answer))


async def _awaited(role: Role, place: Place, number: int) -> Any:
    return await role(place, number)
