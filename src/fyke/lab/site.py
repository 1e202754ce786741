"""`fyke lab site`: a seeded announcement site that knows its own truth.

Lists /list/index.html, /list/index_2.html …; GET or POST /api/list?page=N; /feed.xml (the newest 30);
details /detail/t20261120_ID.html; /robots.txt. Paths that begin with /_ are the laboratory's own and never
fail: `/_truth`, `/_hits`, `/_wait?hits=N`, POST `/_control`, POST `/_reset_hits`.

An id is in the truth's `shown` only after an answer that held it, so what a collector could not see is
never counted as lost.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, Self

from aiohttp import web

from fyke.lab import faults, pages
from fyke.lab.pages import Page
from fyke.lab.serving import LONGEST_WAIT, Arrivals, address, listen, until_stopped
from fyke.lab.truth import Board, SiteConfig

__all__ = ["RunningSite", "SiteConfig", "run_site", "serve_site"]

LIST: Final = re.compile(r"/list/(?:index(?:_([2-9]|[1-9]\d{1,6}))?\.html)?")
NOTICE: Final = re.compile(r"/(?:detail|private)/t\d{8}_(\d{1,12})\.html")
FEED_ITEMS: Final = 30
CACHED_BYTES: Final = 64 * 2**20
MOST_CHANGED: Final = 100_000


class Site:
    """Answers requests from the board's notices, through the planned faults."""

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self.board = Board(config)
        self.faults = faults.Faults(config)
        self.arrivals = Arrivals(config.arrivals_kept, ("list", "detail", "robots"))
        self.robots = config.robots
        self.list_layout, self.detail_layout = config.list_layout, config.detail_layout
        self._moves_left, self._list_requests = config.moves, 0
        self._filler = pages.filler(config.detail_size - len(pages.PARAGRAPH) * 4)
        self._cache: dict[str, Page] = {}
        self._cache_limit = max(64, CACHED_BYTES // (config.detail_size + 4_000))
        self._cached_edition = self.board.edition

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        moment = time.monotonic()
        if request.raw_path.startswith("/_"):
            return await self._inspect(request)
        if self._cached_edition != self.board.edition:
            self.forget_pages()
        page = self._cache.get(request.raw_path) if request.method == "GET" else None
        if page is None:
            page = await self._make(request)
        fault = self.faults.next(page.path, page.kind) if page.kind != "other" else None
        known = fault is None and bool(page.etag) and request.headers.get("If-None-Match") == page.etag
        self.arrivals.note(moment, page.kind, page.path, 304 if known else faults.STATUS.get(fault or "", page.status))
        # The change comes after this answer is made, so that it meets the reader between two pages.
        if page.kind == "list":
            self._move()
        if self.config.latency_ms:
            await asyncio.sleep(self.config.latency_ms / 1000)
        if fault is not None:
            return await self._misbehave(request, page, fault)
        headers = {"Content-Type": page.content_type}
        if page.etag:
            headers["ETag"] = page.etag
        if known:
            return web.Response(status=304, headers=headers)
        if page.status == 302:
            headers["Location"] = pages.list_path(1)
        self.board.shown.update(page.ids)
        return web.Response(status=page.status, body=page.body, headers=headers)

    def forget_pages(self) -> None:
        self._cache.clear()
        self._cached_edition = self.board.edition

    async def _misbehave(self, request: web.BaseRequest, page: Page, fault: str) -> web.StreamResponse:
        refusal = faults.refusal(fault, page, self.config.retry_after)
        if refusal is not None:
            return refusal
        if fault == "reset":
            return faults.reset(request)
        if fault == "cut":
            return await faults.cut(request, page)
        if fault == "endless":
            return await faults.endless(request, page)
        if fault == "slow":
            self.board.shown.update(page.ids)
            return await faults.slow(request, page, self.config.slow_seconds)
        if fault == "hold":
            await self.faults.held()
        elif page.kind == "list":
            page = self._list(page.path, request, empty=True) or page
        self.board.shown.update(page.ids)
        return web.Response(status=page.status, body=page.body, headers={"Content-Type": page.content_type})

    def _move(self) -> None:
        self._list_requests += 1
        if self._moves_left and self._list_requests % self.config.moves_every == 0:
            self._moves_left -= 1
            self.board.move()

    async def _make(self, request: web.BaseRequest) -> Page:
        path = request.path
        if request.method not in {"GET", "HEAD"} and path != "/api/list":
            return self._error("other", path, 405)
        if path == "/api/list":
            path = f"/api/list?page={await _asked_page(request)}"
        if path == "/robots.txt":
            if self.robots is None:
                return self._error("robots", path, 404)
            return Page("robots", path, self.robots.encode(), pages.TEXT)
        if path == "/":
            return Page("other", path, b"", pages.HTML, 302)
        page = self._cache.get(path) or self._list(path, request) or self._detail(path)
        if page is None:
            return self._error("other", path, 404)
        if page.status == 200 and path != "/feed.xml":
            if len(self._cache) >= self._cache_limit:
                self._cache.clear()
            self._cache[page.path] = page
        return page

    def _list(self, path: str, request: web.BaseRequest, *, empty: bool = False) -> Page | None:
        board = self.board
        if path == "/feed.xml":
            rows = [] if empty else board.newest(FEED_ITEMS)
            base = f"http://{request.host}"
            return self._page("list", path, pages.feed_xml(rows, base), pages.RSS, _ids(rows))
        is_api = path.startswith("/api/list?page=")
        match = LIST.fullmatch(path)
        if not is_api and match is None:
            return None
        number = int(path.rpartition("=")[2]) if match is None else int(match[1] or 1)
        rows = [] if empty else board.rows(number)
        pinned = len(board.pinned) if rows else 0
        if is_api:
            body = pages.api_json(rows, pinned, number, board.pages, board.total)
            return self._page("list", path, body, pages.JSON, _ids(rows))
        path = pages.list_path(number)
        if number > board.pages:
            return self._error("list", path, 404)
        text = pages.list_html(rows, pinned, number, board.pages, board.total, self.list_layout)
        return self._page("list", path, *pages.encoded(text, self._is_gbk(path)), _ids(rows))

    def _detail(self, path: str) -> Page | None:
        match = NOTICE.fullmatch(path)
        notice = self.board.notices.get(match[1]) if match else None
        if notice is None or notice.path != path or not notice.linked:
            return None
        if notice.id in self.board.dead:
            return self._error("detail", path, self.config.dead_status)
        original = self.board.notices.get(notice.corrects or "")
        poison = notice.id in self.board.poison
        text = pages.detail_html(notice, original, self._filler, self.detail_layout, poison=poison)
        return self._page("detail", path, *pages.encoded(text, self._is_gbk(path)), ())

    def _page(self, kind: str, path: str, body: bytes, content_type: str, ids: tuple[str, ...]) -> Page:
        tag = pages.etag(body) if self.config.etag else ""
        return Page(kind, path, body, content_type, ids=ids, etag=tag)

    def _error(self, kind: str, path: str, status: int) -> Page:
        body, content_type = pages.encoded(pages.error_html(status), gbk=False)
        return Page(kind, path, body, content_type, status)

    def _is_gbk(self, path: str) -> bool:
        share = self.config.gbk
        return bool(share) and Random(f"{self.config.seed}:gbk:{path}").random() < share

    async def _inspect(self, request: web.BaseRequest) -> web.Response:
        posts: dict[str, Callable[[Any], object]] = {"/_control": self.control, "/_reset_hits": self.reset_hits}
        try:
            if request.path in posts:
                if request.method != "POST":
                    return _answer({"error": f"{request.path} takes POST"}, 405)
                text = await request.text()
                return _answer(posts[request.path](json.loads(text) if text else {}))
            if request.path == "/_truth":
                return _answer(self.board.truth(f"http://{request.host}"))
            if request.path == "/_hits":
                return _answer(self.arrivals.report())
            if request.path == "/_wait":
                return _answer({"hits": await self.arrivals.wait(int(request.query.get("hits", "")), LONGEST_WAIT)})
        except ValueError as error:
            return _answer({"error": str(error)}, 400)
        return _answer({"error": f"no {request.path}"}, 404)

    def reset_hits(self, _: object = None) -> dict[str, Any]:
        self.arrivals.reset()
        return {}

    def control(self, changes: Any) -> dict[str, Any]:
        """Change the site; the answer holds, by name of the change, the ids concerned.

        `add`: a number. `edit`, `edit_silent` (no change on the list), `remove`, `pin`, `delete` (the detail):
        a number, chosen by the seed, or a list of ids. `list_layout`, `detail_layout`: 1 or 2. `robots`: text
        or null. `everywhere`: a fault for all lists and details, or null. `script`: {path: [fault, …]} for the
        next hits. `release`: true lets go what the fault `hold` keeps.

        Raises:
            ValueError: an unknown name or value; nothing after it has been done.
        """
        board = self.board
        actions: dict[str, Callable[[Any], Any]] = {
            "add": lambda value: board.add(_number(value)),
            "edit": lambda value: board.edit(_which(value)),
            "edit_silent": lambda value: board.edit(_which(value), silent=True),
            "remove": lambda value: board.remove(_which(value)),
            "pin": lambda value: board.pin(_which(value)),
            "delete": lambda value: board.delete(_which(value)),
            "list_layout": lambda value: setattr(self, "list_layout", _layout(value)),
            "detail_layout": lambda value: setattr(self, "detail_layout", _layout(value)),
            "robots": lambda value: setattr(self, "robots", value if value is None else str(value)),
            "everywhere": self.faults.everywhere,
            "script": lambda value: self.faults.script(_plans(value)),
            "release": lambda _: self.faults.release(),
        }
        unknown = (set(changes) if isinstance(changes, dict) else {repr(changes)}) - set(actions)
        if unknown:
            raise ValueError(f"no change {', '.join(sorted(unknown))}; there are {', '.join(actions)}")
        done = {name: actions[name](value) for name, value in changes.items()}
        self.forget_pages()
        return {name: ids for name, ids in done.items() if ids is not None}


def _ids(rows: list[Any]) -> tuple[str, ...]:
    return tuple(notice.id for notice in rows if notice.linked)


async def _asked_page(request: web.BaseRequest) -> int:
    value: Any = request.query.get("page")
    if value is None and request.method == "POST":
        text = await request.text()
        if request.content_type == "application/json":
            with suppress(ValueError, AttributeError):
                value = json.loads(text).get("page")
        else:
            value = (await request.post()).get("page")
    return min(int(value), 9_999_999) if str(value).isdecimal() else 1


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_CHANGED:
        raise ValueError(f"a number from 0 to {MOST_CHANGED} is wanted, not {value!r}")
    return value


def _which(value: Any) -> int | list[str]:
    return [str(key) for key in value] if isinstance(value, list) else _number(value)


def _layout(value: Any) -> int:
    if value not in (1, 2):
        raise ValueError(f"a layout is 1 or 2, not {value!r}")
    return int(value)


def _plans(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict) or not all(isinstance(plan, list) for plan in value.values()):
        raise ValueError(f"a list of faults for each path is wanted, not {value!r}")
    return value


def _answer(value: object, status: int = 200) -> web.Response:
    body = json.dumps(value, ensure_ascii=False).encode()
    return web.Response(status=status, body=body, headers={"Content-Type": pages.JSON})


class RunningSite:
    """A listening site, and its truth for a test in the same process. Close it, or use it in `async with`."""

    def __init__(self, site: Site, runner: web.ServerRunner, host: str) -> None:
        self.site, self._runner = site, runner
        self.port = int(runner.addresses[0][1])
        self.url = address(host, self.port)

    def truth(self) -> dict[str, Any]:
        return self.site.board.truth(self.url)

    def hits(self) -> dict[str, Any]:
        return self.site.arrivals.report()

    def reset_hits(self) -> None:
        self.site.reset_hits()

    def control(self, **changes: Any) -> dict[str, Any]:
        return self.site.control(changes)

    async def wait_hits(self, hits: int, seconds: float = LONGEST_WAIT) -> int:
        """Return once so many requests have come (since the last reset), at most after `seconds`."""
        return await self.site.arrivals.wait(hits, seconds)

    async def close(self) -> None:
        self.site.faults.release()
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def serve_site(config: SiteConfig | None = None, host: str = "127.0.0.1", port: int = 0) -> RunningSite:
    """Start the site in this loop; port 0 takes a free one."""
    site = Site(config or SiteConfig())
    return RunningSite(site, await listen(site.handle, host, port), host)


def run_site(config: SiteConfig, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve in this process until SIGINT or SIGTERM. `ready` is called once, with the address."""
    until_stopped(lambda: serve_site(config, host, port), ready)
