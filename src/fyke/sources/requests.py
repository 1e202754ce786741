"""Requests of a source with their placeholders: of list pages, discoveries and the hops of a detail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from fyke.errors import UsageError
from fyke.model import Request
from fyke.sources.faults import Fault, Path
from fyke.sources.placeholders import Template
from fyke.sources.secrets import Secrets, reveal

LONGEST_ADDRESS: Final = 16_000
_NOT_IN_COOKIES: Final = frozenset(';,"\\\r\n\0')


class RequestMaker:
    """A request with placeholders, taken apart once. Secrets are in it, so it is never shown.

    `maybe`: names that may have no value; a parameter, header, cookie or member of the body with such a one is left out
    then.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        names: Collection[str],
        path: Path,
        secrets: Secrets,
        maybe: Collection[str] = (),
    ) -> None:
        def template(text: Any, *at: str | int) -> Template:
            return Template(str(reveal(text, secrets, (*path, *at))), names, (*path, *at))

        self._path = path
        self.url = Template(spec["url"], names, (*path, "url"))
        self.query = [
            (name, Template(str(text), names, (*path, "query", name))) for name, text in _pairs(spec, "query")
        ]
        self.headers = {name: template(text, "headers", name) for name, text in _pairs(spec, "headers")}
        self.cookies = {name: template(text, "cookies", name) for name, text in _pairs(spec, "cookies")}
        if self.cookies and any(name.lower() == "cookie" for name in self.headers):
            raise Fault("'cookies' and the header Cookie stand together", path, hint="write one of them")
        self.form = (
            [(name, template(text, "form", name)) for name, text in _pairs(spec, "form")] if "form" in spec else None
        )
        self.has_json = "json" in spec
        self.json = self._json(reveal(spec.get("json"), secrets, (*path, "json")), names, (*path, "json"))
        self.method = spec.get("method") or ("POST" if self.form is not None or self.has_json else "GET")
        texts = [self.url, *(text for _, text in self.query), *self.headers.values(), *self.cookies.values()]
        texts += [text for _, text in self.form or []]
        self._address_alone = not (self.headers or self.cookies or self.form or _names(self.json))
        self.names = frozenset().union(*(text.names for text in texts), _names(self.json))
        self._maybe = self.names.intersection(maybe)

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
            UsageError: a placeholder has no value, or (a Fault at its place) the address is none.
        """
        gone = self._gone(values)
        return Request(
            url=self._address(values, gone),
            method=self.method,
            headers=self.make_headers(values),
            form=_filled_pairs(self.form, values, gone) if self.form is not None else None,
            json=_filled(self.json, values, gone) if self.has_json else None,
        )

    def _gone(self, values: Mapping[str, Any]) -> frozenset[str]:
        """The names that have no value this time."""
        return frozenset(name for name in self._maybe if values.get(name) in (None, "")) if self._maybe else self._maybe

    def address(self, values: Mapping[str, Any]) -> str:
        """The address of `make`, with the same errors."""
        return self._address(values, self._gone(values)) if self._address_alone else self.make(values).url

    def _address(self, values: Mapping[str, Any], gone: frozenset[str]) -> str:
        url = self.url.address(values)
        if self.query and (pairs := _filled_pairs(self.query, values, gone)):
            head, hash_mark, fragment = url.partition("#")
            joint = "" if head.endswith(("?", "&")) else "&" if "?" in head else "?"
            url = f"{head}{joint}{urlencode(pairs, quote_via=quote, safe='')}{hash_mark}{fragment}"
        if not url.startswith(("http://", "https://")):
            hint = "use the step absolute_url" if self.url.names else "an address begins with http:// or https://"
            raise Fault(f"not an address: {url[:200]!r}", (*self._path, "url"), hint=hint)
        if len(url) > LONGEST_ADDRESS:
            raise Fault(f"the address is longer than {LONGEST_ADDRESS:,} characters", (*self._path, "url"))
        return url

    def make_headers(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Headers with the cookies among them.

        Raises:
            UsageError: a placeholder has no value, or a cookie would not be one.
        """
        if not self.headers and not self.cookies:
            return {}
        gone = self._gone(values)
        headers = {name: text.fill(values) for name, text in self.headers.items() if not gone & text.names}
        pairs = _filled_pairs(list(self.cookies.items()), values, gone)
        for name, value in pairs:
            if not _NOT_IN_COOKIES.isdisjoint(value):
                raise Fault(
                    f"the cookie '{name}' has a character that no cookie may have", (*self._path, "cookies", name)
                )
        if pairs:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in pairs)
        return headers


def address_at(path: Path, make: Callable[[], Request]) -> str:
    """The address of a request that is made to see whether it can be.

    Raises:
        Fault: it cannot be, at its place in the file.
    """
    try:
        return make().url
    except Fault:
        raise
    except UsageError as error:
        raise Fault(error.message, path, hint=error.hint) from error


def _pairs(spec: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    return list(spec.get(name, {}).items())


def _names(value: Any) -> frozenset[str]:
    if isinstance(value, Template):
        return value.names
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return frozenset().union(*(_names(part) for part in parts))


def _filled_pairs(
    pairs: Sequence[tuple[str, Template]], values: Mapping[str, Any], gone: frozenset[str]
) -> list[tuple[str, str]]:
    return [(name, text.fill(values)) for name, text in pairs if not gone & text.names]


def _filled(value: Any, values: Mapping[str, Any], gone: frozenset[str]) -> Any:
    def is_there(part: Any) -> bool:
        return not (isinstance(part, Template) and gone & part.names)

    if isinstance(value, Template):
        return value.typed(values)
    if isinstance(value, Mapping):
        return {name: _filled(part, values, gone) for name, part in value.items() if is_there(part)}
    return [_filled(part, values, gone) for part in value if is_there(part)] if isinstance(value, list) else value
