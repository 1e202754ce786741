"""From one list page to the next: by number, offset, link, cursor or header, and through the parts of a sitemap index.

A cursor holds all that the next request needs, as JSON: it is kept with each page, so that a walk that is resumed goes
on where it was (P1, P2). A page that names no next one says so by a hint; one that names itself proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from fyke.model import Request, Response
from fyke.policy.hints import ITSELF
from fyke.sources.addresses import absolute_url
from fyke.sources.faults import Fault, Path, StepFailed
from fyke.sources.nodes import Context, text_of
from fyke.sources.placeholders import CURSOR, OFFSET, PAGE, Template
from fyke.sources.requests import LONGEST_ADDRESS, RequestMaker
from fyke.sources.secrets import Secrets
from fyke.sources.selectors import Reading, Setting, compile_path
from fyke.sources.sitemaps import Sitemap

KINDS: Final = ("number", "offset", "next", "cursor", "link_header")
LONGEST_CARRIED: Final = 2_000_000

_HINTS: Final = ("total", "last", "more")
_NUMBER: Final = re.compile(r"\d[\d,，]{0,18}")
_NONE: Final = ("", "false", "0", "none", "null")
LONGEST_HEADER: Final = 64_000
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^",;]+|[,;]')
_ANYWHERE: Final = ("accept", "accept-language", "user-agent")  # headers that may go to another host


class Following(NamedTuple):
    """What a page says of those after it; see `ListPage`."""

    next: dict[str, Any] | None = None
    last_by_hint: bool | None = None
    doubt: str = ""
    total: int | None = None
    last: int | None = None


class NumberPages:
    """`first`, then `then` with n = `from`, from + 1, …; nothing on a page says which is the last."""

    def __init__(self, spec: Mapping[str, Any], path: Path) -> None:
        self.first = str(spec["first"])
        default = int(self.first) + 1 if self.first.isdecimal() else 1
        self.start = int(spec.get("from", default))
        self.then = Template(str(spec.get("then", "{n}")), ("n",), (*path, "then"))
        if "n" not in self.then.names:
            raise Fault(
                "'then' names every later page alike", (*path, "then"), hint='write for example "index_{n}.htm"'
            )

    def values(self, number: int) -> dict[str, str]:
        """What {page} is on page `number`, from 1."""
        return {PAGE: self.first if number <= 1 else self.then.fill({"n": self.start + number - 2})}


class OffsetPages:
    """`first`, then `step` more with each page."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.first, self.step = int(spec.get("first", 0)), int(spec["step"])

    def values(self, number: int) -> dict[str, str]:
        return {OFFSET: str(self.first + self.step * (number - 1))}


class ListRequests:
    """The requests of a listing's pages.

    A cursor is {"page": k} for numbers and offsets, {"cursor": text}, or {"url": address}, of an index's parts with the
    addresses of the `rest`; `carry` has what was read from the page before.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        values: tuple[str, ...],
        path: Path,
        secrets: Secrets,
        folder: str | None,
        row: str,
    ) -> None:
        pages: Mapping[str, Any] = spec.get("pages", {})
        place = (*path, "pages")
        self.kind = next((name for name in KINDS if name in pages), "sitemap" if row == "sitemap" else "")
        if row == "sitemap" and pages:
            raise Fault("a sitemap has no pages", place, hint="leave it out: the sitemaps of an index are read in turn")
        self.counted = self._counted(pages, place)
        setting = Setting(place, "", {}, values, folder)
        self.reading: Reading | None = None
        if self.kind in ("next", "cursor"):
            self.reading = compile_path(pages[self.kind], setting.at(self.kind))
        self.hints = {name: compile_path(pages[name], setting.at(name)) for name in _HINTS if name in pages}
        self.carried = {
            name: compile_path(part, setting.at("carry", name)) for name, part in pages.get("carry", {}).items()
        }
        self.first = str(pages["first"]) if "first" in pages else None
        self._check_names(values, place)
        self._compile_requests(spec["request"], pages, values, path, secrets)

    def _counted(self, pages: Mapping[str, Any], place: Path) -> NumberPages | OffsetPages | None:
        if self.kind == "number":
            return NumberPages(pages["number"], (*place, "number"))
        if self.kind == "offset":
            return OffsetPages(pages["offset"])
        if "first" in pages and self.kind != "cursor":
            raise Fault("'first' goes with cursor", (*place, "first"), hint="see number: {first} and offset: {first}")
        for name in ("carry", "request"):
            if name in pages and self.kind != "cursor":
                raise Fault(f"'{name}' goes with number, offset and cursor", (*place, name))
        return None

    def _check_names(self, values: tuple[str, ...], place: Path) -> None:
        own = {"number": PAGE, "offset": OFFSET, "cursor": CURSOR}.get(self.kind)
        self.own: tuple[str, ...] = (own,) if own else ()
        for name in self.carried:
            if name in values or name in (PAGE, OFFSET, CURSOR):
                raise Fault(f"the name '{name}' is taken by a placeholder", (*place, "carry", name))
        if own in values:
            raise Fault(f"'{own}' names the page of a listing", ("each", str(own)), hint="take another name")

    def _compile_requests(
        self, first: Mapping[str, Any], pages: Mapping[str, Any], values: tuple[str, ...], path: Path, secrets: Secrets
    ) -> None:
        names = (*values, *self.own, *self.carried)
        if "request" in pages:
            told = (*values, *(self.own if self.counted or self.first is not None else ()))
            self.maker = RequestMaker(first, told, (*path, "request"), secrets)
            at: Path = (*path, "pages", "request")
            self.later = RequestMaker(pages["request"], names, at, secrets)
        else:
            maybe = {*self.carried, *(self.own if self.kind == "cursor" and self.first is None else ())}
            self.maker = self.later = RequestMaker(first, names, (*path, "request"), secrets, maybe)
            at = (*path, "request")
            if absent := self.maker.url.names & maybe:
                name = sorted(absent)[0]
                hint = f"write it under `query`, which is left out then{', or say pages.first' * (name == CURSOR)}"
                raise Fault(f"page one has no {{{name}}} for its address", (*path, "request", "url"), hint=hint)
        for name in self.own:
            if name not in self.later.names:
                raise Fault("the request is the same for every page", at, hint=f"put {{{name}}} into it")

    @property
    def paged(self) -> bool:
        return self.kind != ""

    def make(self, values: Mapping[str, str], cursor: Mapping[str, Any] | None) -> Request:
        if cursor is not None and "url" in cursor:
            return Request(url=cursor["url"], headers=self._headers_to(cursor["url"], values))
        number = int(cursor.get("page", 1)) if cursor else 1
        filled: dict[str, Any] = dict(values)
        if self.counted is not None:
            filled |= self.counted.values(number)
        elif self.kind == "cursor":
            filled[CURSOR] = cursor["cursor"] if cursor else self.first
        filled |= cursor.get("carry", {}) if cursor else {}
        return (self.later if cursor and cursor != {"page": 1} else self.maker).make(filled)

    def _headers_to(self, url: str, values: Mapping[str, str]) -> dict[str, str]:
        """A page may name any host as the next: what is meant for the source's own does not go there."""
        headers = self.maker.make_headers(values)
        if headers and urlsplit(url).netloc != urlsplit(self.maker.make(values).url).netloc:
            return {name: text for name, text in headers.items() if name.lower() in _ANYWHERE}
        return headers

    def following(self, context: Context, cursor: Mapping[str, Any] | None, response: Response) -> Following:
        """What the page says of those after it.

        Raises:
            StepFailed: a selector raised.
        """
        found = self._next(context, cursor, response)
        more = self._more(context)
        if more is not None and (found.next is not None or found.doubt == ITSELF):
            found = found._replace(last_by_hint=not more)
        elif more and not found.doubt:
            found = found._replace(last_by_hint=False, doubt="the site says that more pages follow, and names none")
        if found.next is not None and self.carried and found.last_by_hint is not True:
            found = self._carry(found, context)
        return found._replace(total=self._number("total", context), last=self._number("last", context))

    def _next(self, context: Context, cursor: Mapping[str, Any] | None, response: Response) -> Following:
        if self.counted is not None:
            return Following({"page": (int(cursor["page"]) if cursor else 1) + 1})
        if self.kind == "cursor":
            return self._by_cursor(context, cursor)
        if self.kind == "next" and self.reading is not None:
            address = absolute_url(self.reading.read("pages.next", context), context)
        elif self.kind == "link_header":
            address = next_of_header(response.headers.get("link", ""), response.url)
        elif self.kind == "":
            return Following()
        else:
            part = next_part(cursor)
            return Following(part, None if part else True)
        if address is None:
            return Following(None, True)
        if len(address) > LONGEST_ADDRESS:
            return Following(doubt=f"the address of the next page is longer than {LONGEST_ADDRESS:,} characters")
        if address in (response.url, cursor["url"] if cursor else None):
            return Following(doubt=ITSELF)
        return Following({"url": address}, False)

    def _by_cursor(self, context: Context, cursor: Mapping[str, Any] | None) -> Following:
        assert self.reading is not None
        value = self.reading.read("pages.cursor", context)
        text = None if value is False else text_of(value)
        if text is None or not text.strip():
            return Following(None, True)
        if len(text) > LONGEST_CARRIED:
            return Following(doubt=f"the cursor of the next page is longer than {LONGEST_CARRIED:,} characters")
        if text == (cursor["cursor"] if cursor else self.first):
            return Following(doubt=ITSELF)
        return Following({"cursor": text}, False)

    def _carry(self, found: Following, context: Context) -> Following:
        """The next request takes along what this page has for it; without that it would ask for something else."""
        values: dict[str, str] = {}
        for name, reading in self.carried.items():
            text = text_of(reading.read(f"pages.carry.{name}", context))
            if text is None:
                return Following(doubt=f"the page has no '{name}' (pages.carry), which the next one needs")
            values[name] = text
        if sum(map(len, values.values())) > LONGEST_CARRIED:
            return Following(doubt=f"what the next page needs is longer than {LONGEST_CARRIED:,} characters")
        return found._replace(next={**(found.next or {}), "carry": values})

    def _more(self, context: Context) -> bool | None:
        if "more" not in self.hints:
            return None
        value = self.hints["more"].read("pages.more", context)
        # An element that is there says so without a word, such as the picture of an arrow.
        said = text_of(value) if value is None or isinstance(value, (str, bool, int)) else "more"
        return (said or "").strip().lower() not in _NONE

    def _number(self, name: str, context: Context) -> int | None:
        """A hint that cannot be read is none: the rows of the page count without it."""
        if name not in self.hints:
            return None
        try:
            found = _NUMBER.search(text_of(self.hints[name].read(f"pages.{name}", context)) or "")
        except StepFailed:
            return None
        return int(re.sub("[,，]", "", found[0])) if found else None


def next_of_header(header: str, url: str) -> str | None:
    """The address with rel="next" in a Link header (RFC 8288)."""
    header, at = header[:LONGEST_HEADER], 0
    while (start := header.find("<", at)) >= 0 and (end := header.find(">", start)) >= 0:
        at = end + 1
        parameters = [""]
        # Commas and semicolons inside quotes part nothing.
        while (token := _TOKEN.match(header, at)) is not None and token[0] != ",":
            at = token.end()
            if token[0] == ";":
                parameters.append("")
            else:
                parameters[-1] += token[0]
        if _is_next(parameters):
            try:
                found = urljoin(url, header[start + 1 : end].strip())
            except ValueError:
                return None
            return found if found.startswith(("http://", "https://")) else None
    return None


def _is_next(parameters: list[str]) -> bool:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "rel":
            # Of several, the first one counts.
            return "next" in value.strip().strip('"').lower().split()
    return False


def part_of(rest: list[str], above: Sequence[str] = ()) -> dict[str, Any]:
    """The cursor of the first of these parts of an index. `above`: the indexes that led here."""
    return {"url": rest[0], "rest": rest[1:], "above": list(above)}


def next_part(cursor: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The part after that of the cursor."""
    rest = list(cursor.get("rest", ())) if cursor else []
    return part_of(rest, cursor.get("above", ())) if rest and cursor else None


def parts_of_index(sitemap: Sitemap, cursor: Mapping[str, Any] | None, response: Response) -> Following:
    """The parts that an index names, before those that are left from the one above it; never one that led here."""
    before, rest = (cursor.get("above", ()), cursor.get("rest", ())) if cursor else ((), ())
    above = list(dict.fromkeys([*before, *([cursor["url"]] if cursor else []), response.url]))
    left = [part for part in dict.fromkeys([*(sitemap.parts or ()), *rest]) if part not in above]
    if left:
        return Following(part_of(left, above), False, sitemap.doubt)
    return Following(doubt="the index of sitemaps names only itself")
