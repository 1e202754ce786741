"""The keys that say how a list is asked for and where its rows are, in a listing, in its `fill` and in a discovery."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fyke.sources.faults import Fault, Path
from fyke.sources.fieldshape import FIELD_NAME, SELECTOR, fields_shape
from fyke.sources.shapes import DURATION, Anything, Flag, Key, MapOf, Scalar, Section, Text, Whole

WORDS: Final = MapOf(Scalar(), r"[^\r\n]+", "a name")


def _request_of_one_body(request: Mapping[str, Any], path: Path) -> None:
    if "form" in request and "json" in request:
        raise Fault("'form' and 'json' stand together", path, hint="a request has one body")
    if ("form" in request or "json" in request) and request.get("method", "POST") == "GET":
        raise Fault("a GET has no body", path, hint="write method: POST")


REQUEST: Final = Section(
    "request",
    {
        "url": Key(Text(), "The address, with {placeholders}.", required=True),
        "method": Key(Text(choices=("GET", "POST")), "GET, or POST (the default where there is a body)."),
        "query": Key(WORDS, "Parameters of the address."),
        "headers": Key(WORDS, "Headers of this request."),
        "cookies": Key(WORDS, "Cookies of this request; those that the site sets are not kept for the next one."),
        "form": Key(WORDS, "The body as a form."),
        "json": Key(Anything(), 'The body as JSON; "{page:int}" gives a number, `:number` and `:bool` likewise.'),
    },
    extra=_request_of_one_body,
)
PAGES: Final = Section(
    "pages",
    {
        "number": Key(
            Section(
                "number",
                {
                    "first": Key(Scalar(), "What {page} is on page one.", required=True),
                    "then": Key(Text(), "What {page} is on later pages, with {n}; default the number itself."),
                    "from": Key(Whole(0, 10**9), "n of page two; default first + 1 where first is a number, else 1."),
                },
            ),
            "Pages by number.",
        ),
        "offset": Key(
            Section(
                "offset",
                {
                    "step": Key(Whole(1, 10**6), "How many rows a page is on.", required=True),
                    "first": Key(Whole(0, 10**6), "{offset} of page one. Default 0."),
                },
            ),
            "Pages by the number of rows before them, with {offset} in the request.",
        ),
        "next": Key(SELECTOR, "The address of the next page; a page without one is the last."),
        "cursor": Key(
            SELECTOR,
            "What the next page is asked with, as {cursor}. A page without one is the last; a cursor that comes again "
            "is a gap.",
        ),
        "link_header": Key(Flag(), 'The next page is the address with rel="next" in the header Link.'),
        "first": Key(Scalar(), "What {cursor} is on page one; left out: what it stands in is left out there."),
        "request": Key(REQUEST, "How pages after the first are asked for, where page one is asked for in another way."),
        "carry": Key(
            MapOf(SELECTOR, FIELD_NAME, least=1),
            "Values read from each page for the request of the next, by name of their {placeholder}: `__VIEWSTATE`.",
        ),
        "total": Key(SELECTOR, "How many rows the site says it has: a hint, never a proof of the end."),
        "last": Key(SELECTOR, "The number of the last page, as the site says it: a hint, never a proof of the end."),
        "more": Key(SELECTOR, "Whether the site says that more pages follow: a value, or an element that is there."),
        "max": Key(Whole(1, 100_000), "Pages read at most; reaching it unconnected is a gap. Default 100."),
    },
    one_of=("number", "offset", "next", "cursor", "link_header"),
)
ROW_KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        "in": Key(Text(), "The container of the rows; missing = the page does not fit."),
        "css": Key(Text(), "Each row; `> li` begins at the container."),
        "xpath": Key(Text(), "Each row, by XPath."),
        "json": Key(Text(), "A JMESPath to the list of rows; `@` is the root."),
        "columns": Key(Text(), "A JMESPath to columns side by side: a mapping of lists, or a list of lists."),
        "feed": Key(Text(choices=("entries",)), "`entries`: of RSS 0.9x, 1.0, 2.0, Atom or a JSON Feed."),
        "sitemap": Key(Text(choices=("urls",)), "`urls`: of a sitemap, also packed (`.xml.gz`); an index is followed."),
        "regex": Key(
            Text(), "Where JSON begins in the page's source (group 1), for `json` or `columns`: JSON in a script."
        ),
    }
)
ROW_KINDS: Final = ("css", "xpath", "json", "columns", "feed", "sitemap")
ROWS: Final = Section(
    "rows",
    {**ROW_KEYS, "pinned": Key(Text(), "What a pinned row matches; default 置顶 marked in its text.")},
    one_of=ROW_KINDS,
)
FILL: Final = Section(
    "fill",
    {
        "window": Key(DURATION, "How long a date window is. Default 1d; one of whole days begins at midnight."),
        "request": Key(
            REQUEST,
            "How a page of a window is asked for, with {from} and {to} (`{from:%Y-%m-%d}`), or as figures {from_s}, "
            "{from_ms}, {to_s}, {to_ms}.",
            required=True,
        ),
        "ends": Key(
            Text(choices=("inclusive", "exclusive")),
            "Whether the site counts {to} itself in: `inclusive` (default; {to} is the window's last second) or "
            "`exclusive` ({to} is the moment after it).",
        ),
        "pages": Key(PAGES, "As `listing.pages`; a window with more than `max` pages is read as two halves."),
        "rows": Key(ROWS, "Where the rows are; default as in the listing."),
        "fields": Key(
            fields_shape(python=False),
            "The fields of a row, some of those of the listing; default all of them. With fields of its own a window "
            "makes new items and leaves known ones as they are.",
        ),
    },
)
