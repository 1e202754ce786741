"""Requests of a source: list pages and their order, and the hops of a detail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from fyke.errors import UsageError
from fyke.model import Request
from fyke.sources.faults import Fault, Path
from fyke.sources.nodes import Context
from fyke.sources.placeholders import PAGE, Template
from fyke.sources.secrets import Secrets, reveal
from fyke.sources.selectors import Reading, Setting, compile_path
from fyke.sources.steps import absolute_url

LONGEST_ADDRESS: Final = 16_000


class RequestMaker:
    """A request with placeholders, taken apart once. Secrets are in it, so it is never shown."""

    def __init__(self, spec: Mapping[str, Any], names: Collection[str], path: Path, secrets: Secrets) -> None:
        def template(text: Any, *at: str | int) -> Template:
            return Template(str(reveal(text, secrets, (*path, *at))), names, (*path, *at))

        self.url = Template(spec["url"], names, (*path, "url"))
        self.query = [
            (name, Template(str(text), names, (*path, "query", name))) for name, text in _pairs(spec, "query")
        ]
        self.headers = {name: template(text, "headers", name) for name, text in _pairs(spec, "headers")}
        self.form = (
            [(name, template(text, "form", name)) for name, text in _pairs(spec, "form")] if "form" in spec else None
        )
        self.has_json = "json" in spec
        self.json = self._json(reveal(spec.get("json"), secrets, (*path, "json")), names, (*path, "json"))
        self.method = spec.get("method") or ("POST" if self.form is not None or self.has_json else "GET")
        texts = [self.url, *(text for _, text in self.query), *self.headers.values()]
        texts += [text for _, text in self.form or []]
        self._address_alone = not (self.headers or self.form or _names(self.json))
        self.names = frozenset().union(*(text.names for text in texts), _names(self.json))

    def _json(self, value: Any, names: Collection[str], path: Path) -> Any:
        if isinstance(value, str):
            return Template(value, names, path)
        if isinstance(value, Mapping):
            return {name: self._json(part, names, (*path, name)) for name, part in value.items()}
        if isinstance(value, list):
            return [self._json(part, names, (*path, at)) for at, part in enumerate(value)]
        return value

    def make(self, values: Mapping[str, Any]) -> Request:
        """The request for these values.

        Raises:
            UsageError: a placeholder has no value, or the address is none.
        """
        return Request(
            url=self._address(values),
            method=self.method,
            headers={name: text.fill(values) for name, text in self.headers.items()},
            form=[(name, text.fill(values)) for name, text in self.form] if self.form is not None else None,
            json=_filled(self.json, values) if self.has_json else None,
        )

    def address(self, values: Mapping[str, Any]) -> str:
        """The address of `make`, with the same errors."""
        return self._address(values) if self._address_alone else self.make(values).url

    def _address(self, values: Mapping[str, Any]) -> str:
        url = self.url.address(values)
        if self.query:
            pairs = [(name, text.fill(values)) for name, text in self.query]
            head, hash_mark, fragment = url.partition("#")
            joint = "" if head.endswith(("?", "&")) else "&" if "?" in head else "?"
            url = f"{head}{joint}{urlencode(pairs, quote_via=quote, safe='')}{hash_mark}{fragment}"
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"not an address: {url[:200]!r}", hint="use the step absolute_url")
        if len(url) > LONGEST_ADDRESS:
            raise UsageError(f"the address is longer than {LONGEST_ADDRESS:,} characters")
        return url

    def make_headers(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {name: text.fill(values) for name, text in self.headers.items()}


def _pairs(spec: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    return list(spec.get(name, {}).items())


def _names(value: Any) -> frozenset[str]:
    if isinstance(value, Template):
        return value.names
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return frozenset().union(*(_names(part) for part in parts))


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, Template):
        return value.typed(values)
    if isinstance(value, Mapping):
        return {name: _filled(part, values) for name, part in value.items()}
    return [_filled(part, values) for part in value] if isinstance(value, list) else value


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

    def text(self, number: int) -> str:
        """What {page} is on page `number`, from 1."""
        return self.first if number <= 1 else self.then.fill({"n": self.start + number - 2})


class NextPages:
    """A link to the next page. A page without one says that it is the last."""

    def __init__(self, spec: Mapping[str, Any], setting: Setting) -> None:
        self.reading: Reading = compile_path(spec, setting)

    def address(self, context: Context) -> str | None:
        address = absolute_url(self.reading.read("pages.next", context), context)
        return address if address is not None and len(address) <= LONGEST_ADDRESS else None


class ListRequests:
    """The requests of a listing's pages. A cursor is {"page": k} or {"url": address}."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        values: tuple[str, ...],
        path: Path,
        secrets: Secrets,
        folder: str | None,
        row: str,
    ) -> None:
        pages = spec.get("pages", {})
        self.number = NumberPages(pages["number"], (*path, "pages", "number")) if "number" in pages else None
        setting = Setting((*path, "pages", "next"), "", {}, values, folder)
        self.next = NextPages(pages["next"], setting) if "next" in pages else None
        names = (*values, PAGE) if self.number else values
        self.maker = RequestMaker(spec["request"], names, (*path, "request"), secrets)
        if self.number and PAGE not in self.maker.names:
            raise Fault("the request is the same for every page", (*path, "request"), hint="put {page} into it")

    @property
    def paged(self) -> bool:
        return self.number is not None or self.next is not None

    def make(self, values: Mapping[str, str], cursor: Mapping[str, Any] | None) -> Request:
        if cursor is not None and "url" in cursor:
            return Request(url=cursor["url"], headers=self.maker.make_headers(values))
        if self.number is None:
            return self.maker.make(values)
        return self.maker.make({**values, PAGE: self.number.text(cursor["page"] if cursor else 1)})

    def following(
        self, context: Context, cursor: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any] | None, bool | None]:
        """The cursor of the next page, and whether the page itself says that it is the last."""
        if self.number is not None:
            return {"page": (cursor["page"] if cursor else 1) + 1}, None
        if self.next is None:
            return None, None
        address = self.next.address(context)
        return ({"url": address}, False) if address is not None else (None, True)
