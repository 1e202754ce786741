"""`fyke record`: pages of a site into a folder beside the source, in the form that `fyke lab replay` reads.

Secrets of a request's body are not written, and of an answer's headers only those that say what the body is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from fyke.errors import FetchFailed, UsageError
from fyke.lab.recorded import INDEX, ListRead, fields_of, read_detail, walk_lists
from fyke.lab.replay import COLUMNS, plain_url
from fyke.model import Outcome, Request, Response
from fyke.ports import Source

KEPT_HEADERS: Final = ("content-type", "link")
EMPTY_FILE: Final = "redirect.txt"
SUFFIXES: Final = (
    ("json", ".json"),
    ("rss", ".rss"),
    ("atom", ".atom"),
    ("xml", ".xml"),
    ("html", ".html"),
    ("text/plain", ".txt"),
)


class Recorded(Struct):
    """What was written. `failed`: one line for each page that could not be had."""

    folder: str
    lists: int = 0
    details: int = 0
    entries: int = 0
    failed: list[str] = []


class PagesFolder:
    """A folder of recorded pages being written; its index comes last, when all pages are there."""

    def __init__(self, folder: Path, secret: frozenset[str]) -> None:
        self.folder, self._secret = folder, secret
        self._lines: list[str] = []
        self._known: set[tuple[str, str, str]] = set()

    def begin(self, *, replace: bool) -> None:
        """Make the folder, empty of what an earlier recording left.

        Raises:
            UsageError: pages are there, and `replace` is not said.
        """
        index = self.folder / INDEX
        if index.exists() and not replace:
            raise UsageError(
                "pages are recorded there already", file=str(self.folder), hint="--replace records them anew"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        index.unlink(missing_ok=True)
        for pattern in ("list-*", "detail-*", EMPTY_FILE):
            for path in self.folder.glob(pattern):
                path.unlink()

    def add(self, name: str, request: Request, response: Response) -> None:
        """Write one answer, and the redirects that led to it."""
        url, target = plain_url(request.url), plain_url(response.url)
        fields = {name: text for name, text in fields_of(request).items() if name not in self._secret}
        match = urlencode(fields)
        if (request.method, url, match) in self._known:
            return
        if url != target:
            (self.folder / EMPTY_FILE).write_bytes(b"\n")
            self._line(request.method, url, EMPTY_FILE, 302, {"Location": response.url}, match)
            if ("GET", target, "") in self._known:
                return
        content_type = response.headers.get("content-type", "")
        file = name + _suffix(content_type, response.url)
        (self.folder / file).write_bytes(response.body)
        headers = {each.title(): response.headers[each] for each in KEPT_HEADERS if each in response.headers}
        if url == target:
            self._line(request.method, url, file, 200, headers, match)
        else:
            self._line("GET", target, file, 200, headers, "")

    def _line(self, method: str, url: str, file: str, status: int, headers: Mapping[str, str], match: str) -> None:
        self._known.add((method, url, match))
        head = json.dumps(dict(headers), ensure_ascii=True)
        self._lines.append("\t".join((method, url, f"./{file}", str(status), head, match)))

    def end(self) -> None:
        """Write the index."""
        head = [
            "# Recorded by `fyke record`. `fyke lab replay` serves it, `fyke source test` reads it.",
            "\t".join(COLUMNS),
        ]
        (self.folder / INDEX).write_text("\n".join([*head, *self._lines]) + "\n", encoding="utf-8")


def _suffix(content_type: str, url: str) -> str:
    if url.endswith(".gz"):
        return ".gz"
    return next((suffix for part, suffix in SUFFIXES if part in content_type.lower()), ".bin")


async def record(
    source: Source,
    fetch: Any,
    folder: Path,
    *,
    pages: int,
    details: int,
    lists: int,
    listing: str | None,
    replace: bool,
) -> Recorded:
    """Fetch `pages` pages of the first `lists` lists, or of one, and the details of the first entries, and keep them.

    Raises:
        UsageError: pages are there already.
        FetchFailed: not even one list page could be had; nothing is left behind but an empty folder.
    """
    keeping = PagesFolder(folder, _secret_fields(source))
    keeping.begin(replace=replace)
    found = Recorded(str(folder), failed=[])
    read: list[ListRead] = []
    async for one in walk_lists(source, fetch, pages=pages, listing=listing, lists=lists):
        if one.response is None:
            found.failed.append(f"{one.request.url}: {one.read.outcome}: {one.read.reason}")
            continue
        found.lists += 1
        keeping.add(f"list-{found.lists}", one.request, one.response)
        read.append(one)
        found.entries += len(one.read.entries)
        if one.read.outcome is not Outcome.OK:
            found.failed.append(f"{one.request.url}: {one.read.outcome}: {one.read.reason}")
    if not read:
        raise FetchFailed(Outcome.UNAVAILABLE, found.failed[0] if found.failed else "no list page")
    entries = [entry for one in read for entry in one.read.entries] if source.steps else []
    for number, entry in enumerate(entries[:details], 1):
        detail = await read_detail(source, entry, fetch)
        for hop, (request, response) in enumerate(detail.responses, 1):
            keeping.add(f"detail-{number}" + (f"-{hop}" if source.steps > 1 else ""), request, response)
        if detail.outcome is Outcome.OK:
            found.details += 1
        else:
            found.failed.append(f"{detail.request.url}: {detail.outcome}: {detail.reason}")
    keeping.end()
    return found


def _secret_fields(source: Source) -> frozenset[str]:
    """The fields of forms and JSON bodies that hold a secret: an index is no place for them."""
    data = json.loads(source.resolved.text).get("source", {})
    requests = [data.get("listing", {}).get("request", {})]
    requests += [step.get("request", {}) for step in data.get("detail", {}).get("steps", ())]
    bodies = [request.get(kind) for request in requests for kind in ("form", "json")]
    return frozenset(
        str(name)
        for body in bodies
        if isinstance(body, Mapping)
        for name, text in body.items()
        if "${secret:" in json.dumps(text)
    )
