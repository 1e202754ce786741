"""`fyke lab replay`: saved pages under their own addresses, from an index of ours.

With `fetch.replay` set, the fetcher sends every request here in plain HTTP, the address it means in the
header X-Fyke-Replay-Url. What the index does not name is answered 404, robots.txt included: a replay never
reaches the network.

The index is a table with tabs: `method url file status headers match`. A file that begins with ./ stands
beside the index, any other below the root. `headers` is a JSON object or empty; `match` is a form such as
PAGENUMBER=1 whose fields the body (form or JSON) must have, or empty for any body. Lines that begin with #
and empty lines do not count; the first other line names the columns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from aiohttp import web
from yarl import URL

from fyke.errors import UsageError, nearest
from fyke.lab.serving import Arrivals, address, listen, until_stopped

URL_HEADER: Final = "X-Fyke-Replay-Url"
COLUMNS: Final = ("method", "url", "file", "status", "headers", "match")
METHODS: Final = ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")
# These describe the connection, not the page: the server sets its own.
NOT_OURS: Final = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te"})
TYPES: Final = {
    ".html": "text/html",
    ".htm": "text/html",
    ".json": "application/json",
    ".xml": "application/xml",
    ".rss": "application/rss+xml",
    ".atom": "application/atom+xml",
    ".txt": "text/plain",
}
ARRIVALS_KEPT: Final = 100_000
LARGEST_FILE: Final = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPage:
    """One saved answer: for which request, and what is sent."""

    method: str
    url: str
    match: tuple[tuple[str, str], ...]
    file: Path
    status: int
    headers: dict[str, str]

    def fits(self, fields: Mapping[str, str]) -> bool:
        return all(fields.get(name) == value for name, value in self.match)


def plain_url(text: str) -> str:
    """An address as it is compared: host in lower case, no default port, no fragment.

    Raises:
        ValueError: it is not an absolute http or https address.
    """
    url = URL(text)
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("an absolute http or https address is wanted")
    return str((url.with_path("/", keep_query=True) if url.path == "/" else url).with_fragment(None))


def load_index(index_file: Path, root: Path | None = None) -> list[SavedPage]:
    """Read an index; `root` defaults to the folder of the index.

    Raises:
        UsageError: naming file, line and field of the first mistake.
    """
    root = root or index_file.parent
    try:
        text = index_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", file=str(index_file)) from None
    lines: dict[tuple[str, str, tuple[tuple[str, str], ...]], int] = {}
    found: list[SavedPage] = []
    columns: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if columns is None:
            columns = _columns(cells, index_file, number)
            continue
        page = _Line(index_file, number, root, columns, cells).read()
        key = (page.method, page.url, page.match)
        if key in lines:
            message = f"the same request as on line {lines[key]}"
            raise UsageError(message, file=str(index_file), line=number, field="url")
        lines[key] = number
        found.append(page)
    if not found:
        raise UsageError("names no page", file=str(index_file))
    return found


def _columns(cells: list[str], file: Path, line: int) -> list[str]:
    for name in cells:
        if name not in COLUMNS:
            hint = nearest(name, COLUMNS) or f"columns: {', '.join(COLUMNS)}"
            raise UsageError("no such column", file=str(file), line=line, field=name, hint=hint)
    for name in ("method", "url", "file"):
        if name not in cells:
            raise UsageError("this column is missing", file=str(file), line=line, field=name)
    if len(set(cells)) < len(cells):
        raise UsageError("a column comes twice", file=str(file), line=line)
    return cells


class _Line:
    """One line of an index, being read."""

    def __init__(self, file: Path, number: int, root: Path, columns: list[str], cells: list[str]) -> None:
        self._file, self._number, self._root = file, number, root
        if len(cells) > len(columns):
            raise self._wrong(columns[-1], f"{len(cells)} cells, but {len(columns)} columns")
        self._cells = dict(zip(columns, cells, strict=False))

    def read(self) -> SavedPage:
        return SavedPage(
            method=self._cell("method", self._method),
            url=self._cell("url", plain_url),
            match=self._cell("match", self._match),
            file=self._cell("file", self._path),
            status=self._cell("status", self._status),
            headers=self._cell("headers", self._headers),
        )

    def _cell(self, field: str, convert: Callable[[str], Any]) -> Any:
        text = self._cells.get(field, "")
        try:
            return convert(text)
        except ValueError as error:
            raise self._wrong(field, f"{error}, not {text!r}") from None

    def _wrong(self, field: str, message: str) -> UsageError:
        return UsageError(message, file=str(self._file), line=self._number, field=field)

    @staticmethod
    def _method(text: str) -> str:
        if text not in METHODS:
            raise ValueError(f"one of {', '.join(METHODS)} is wanted")
        return text

    def _path(self, text: str) -> Path:
        top = self._file.parent if text.startswith("./") else self._root
        path = (top / text).resolve()
        if not text or not path.is_relative_to(top.resolve()):
            raise ValueError("a path below the root, or ./ and a path beside the index, is wanted")
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"a file of at most {LARGEST_FILE // 2**20} MiB below {top} is wanted")
        return path

    @staticmethod
    def _status(text: str) -> int:
        if text and not (text.isdecimal() and 200 <= int(text) <= 599):
            raise ValueError("a number from 200 to 599 is wanted")
        return int(text or 200)

    def _headers(self, text: str) -> dict[str, str]:
        headers: Any = None
        with suppress(ValueError):
            headers = json.loads(text or "{}")
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            raise ValueError('a JSON object of texts such as {"Content-Type": "text/html"} is wanted')
        for name, value in headers.items():
            if name.lower() in NOT_OURS or any(sign in name + value for sign in "\r\n\0"):
                raise ValueError(f"the header {name} cannot be replayed")
        if not any(name.lower() == "content-type" for name in headers):
            kind = TYPES.get(Path(self._cells.get("file", "")).suffix.lower(), "application/octet-stream")
            headers["Content-Type"] = kind
        return headers

    @staticmethod
    def _match(text: str) -> tuple[tuple[str, str], ...]:
        if not text:
            return ()
        return tuple(sorted(parse_qsl(text, keep_blank_values=True, strict_parsing=True)))


class Replay:
    """Answers from the index. A page with more matching fields comes before one with fewer."""

    def __init__(self, saved: list[SavedPage]) -> None:
        self.arrivals = Arrivals(ARRIVALS_KEPT, ("page",))
        self._bodies = {page.file: page.file.read_bytes() for page in saved}
        self._saved: dict[tuple[str, str], list[SavedPage]] = {}
        for page in sorted(saved, key=lambda page: -len(page.match)):
            self._saved.setdefault((page.method, page.url), []).append(page)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        moment = time.monotonic()
        wanted = request.headers.get(URL_HEADER)
        if wanted is None:
            return self._without_address(request)
        try:
            url = plain_url(wanted)
        except ValueError as error:
            return _text(400, f"{URL_HEADER}: {error}, not {wanted!r}")
        page = await self._find(request, url)
        kind, status = ("page", page.status) if page else ("other", 404)
        self.arrivals.note(moment, kind, f"{request.method} {url}", status)
        if page is None:
            return _text(404, f"not in the index: {request.method} {url}")
        return web.Response(status=page.status, body=self._bodies[page.file], headers=page.headers)

    async def _find(self, request: web.BaseRequest, url: str) -> SavedPage | None:
        saved = self._saved.get((request.method, url))
        if not saved and request.method == "HEAD":
            saved = self._saved.get(("GET", url))
        if not saved:
            return None
        fields = dict(await _fields(request)) if any(page.match for page in saved) else {}
        return next((page for page in saved if page.fits(fields)), None)

    def _without_address(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/_hits":
            report = self.arrivals.report()
            return web.Response(body=json.dumps(report).encode(), content_type="application/json")
        return _text(404, f"the request has no header {URL_HEADER}: set fetch.replay to this address")


async def _fields(request: web.BaseRequest) -> Iterator[tuple[str, str]]:
    """The fields of a form, or the plain values at the top of a JSON body."""
    text = (await request.read()).decode("utf-8", "replace")
    if request.content_type != "application/json":
        return iter(parse_qsl(text, keep_blank_values=True))
    try:
        value = json.loads(text)
    except ValueError:
        return iter(())
    fields = value if isinstance(value, dict) else {}
    return ((name, str(content)) for name, content in fields.items() if isinstance(content, str | int | float))


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")


class RunningReplay:
    """A listening replay. Close it, or use it in `async with`."""

    def __init__(self, replay: Replay, runner: web.ServerRunner, host: str) -> None:
        self.replay, self._runner = replay, runner
        self.port = int(runner.addresses[0][1])
        self.url = address(host, self.port)

    def hits(self) -> dict[str, Any]:
        """Counts by ``METHOD address``: `page` for those of the index, `other` for the rest; and arrivals."""
        return self.replay.arrivals.report()

    async def close(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def serve_replay(
    index_file: Path, host: str = "127.0.0.1", port: int = 0, *, root: Path | None = None
) -> RunningReplay:
    """Start a replay in this loop; port 0 takes a free one.

    Raises:
        UsageError: the index has a mistake; nothing listens.
    """
    replay = Replay(load_index(index_file, root))
    return RunningReplay(replay, await listen(replay.handle, host, port), host)


def run_replay(
    index_file: Path, host: str, port: int, ready: Callable[[str], None], *, root: Path | None = None
) -> None:
    """Serve in this process until SIGINT or SIGTERM. `ready` is called once, with the address."""
    until_stopped(lambda: serve_replay(index_file, host, port, root=root), ready)
