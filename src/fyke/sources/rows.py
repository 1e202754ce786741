"""Rows of a list page, found before anything is read in them, and which of them are pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from jmespath.exceptions import JMESPathError
from lxml import etree

from fyke.sources.columns import json_inside, rows_of_columns
from fyke.sources.document import Document
from fyke.sources.faults import Fault, Misfit, Path
from fyke.sources.nodes import Context, element_of, is_empty, lexbor_of, text_of
from fyke.sources.selectors import Css, XPath
from fyke.sources.steps import compile_json, compile_regex

KINDS: Final = ("css", "xpath", "json", "columns", "feed", "sitemap")
MOST_ROWS: Final = 100_000
_PINNED: Final = re.compile(r"^\W{0,3}置顶|[\[【(（<〔]\s*置顶\s*[\]】)）>〕]")


class Rows:
    """The rows of a list page: nodes, JSON values, entries of a feed or of a sitemap, in the page's order."""

    def __init__(self, spec: Mapping[str, Any], path: Path) -> None:
        self.kind = next(name for name in KINDS if name in spec)
        self.row = {"css": "html", "xpath": "html", "columns": "json"}.get(self.kind, self.kind)
        text, inside = spec[self.kind], spec.get("in")
        if inside is not None and self.row != "html":
            raise Fault("'in' goes with css and xpath rows", (*path, "in"))
        self.inside = inside
        self.text = text
        if self.kind == "css":
            self.css = Css(text, (*path, "css"))
            self.container_css = Css(inside, (*path, "in")) if inside is not None else None
            if self.css.attribute or self.css.own_text or (self.container_css and self.container_css.attribute):
                raise Fault("rows are elements, not attributes or text", (*path, "css"))
            if self.css.relative and inside is None:
                raise Fault(f"{text!r} has nothing to begin from", (*path, "css"), hint="say where: `in: SELECTOR`")
        elif self.kind == "xpath":
            self.xpath = XPath(text, (*path, "xpath"), row=inside is not None)
            self.container_xpath = XPath(inside, (*path, "in"), row=False) if inside is not None else None
        elif self.row == "json":
            self.search = compile_json(text, (*path, self.kind))
        if "regex" in spec and self.row != "json":
            raise Fault("'regex' goes with json and columns rows", (*path, "regex"), hint='write json: "@" beside it')
        self.script = compile_regex(spec["regex"], (*path, "regex")) if "regex" in spec else None
        self.pinned = self._pinned(spec["pinned"], (*path, "pinned")) if "pinned" in spec else None

    def _pinned(self, text: str, path: Path) -> Any:
        if self.kind == "css":
            return Css(text, path)
        if self.kind == "xpath":
            return XPath(text, path, row=True)
        if self.row == "json":
            return compile_json(text, path)
        raise Fault(f"a {self.kind} has no pinned entries", path)

    def is_pinned(self, row: Any, context: Context) -> bool:
        """Whether a row stands on top of every page, whatever its age: by `pinned`, or marked 置顶 in its text."""
        if self.pinned is None:
            return context.document.names_pinned and _PINNED.search(text_of(row) or "") is not None
        if isinstance(self.pinned, Css):
            node = lexbor_of(row, context.document)
            if node is None:
                return False
            return bool(self.pinned.nodes(node))
        if isinstance(self.pinned, XPath):
            return any(
                not is_empty(hit) and hit is not False for hit in self.pinned.nodes(element_of(row, context.document))
            )
        return bool(self.pinned(row))

    def is_index(self, document: Document) -> bool:
        """Whether the page is an index of sitemaps.

        Raises:
            Misfit: it should be a sitemap and is none.
        """
        return self.kind == "sitemap" and document.sitemap.parts is not None

    def read(self, document: Document) -> list[Any]:
        """The rows; an empty list where the page has a place for them and none is there.

        Raises:
            Misfit: the page has no such place.
        """
        if self.kind == "feed":
            return list(document.feed)
        if self.kind == "sitemap":
            return list(document.sitemap.entries)
        if self.row == "json":
            rows = self._found(document)
            if self.kind == "columns":
                return rows_of_columns(rows, self.text)
            if rows is None:
                raise Misfit(f"the answer has no '{self.text}'")
            if not isinstance(rows, list):
                raise Misfit(f"'{self.text}' is no list")
            return rows
        rows = self._css_rows(document) if self.kind == "css" else self._xpath_rows(document)
        if not rows and self.inside is None:
            raise Misfit(
                f"no row {self.text!r} on the page (with `in` an empty list could be told from a changed page)"
            )
        return rows

    def _found(self, document: Document) -> Any:
        data = document.json if self.script is None else json_inside(document.text, self.script)
        try:
            return self.search(data)
        except (JMESPathError, TypeError, ValueError) as error:
            raise Misfit(f"'{self.text}' cannot be read: {' '.join(str(error).split())}") from error

    def _css_rows(self, document: Document) -> list[Any]:
        if self.container_css is None:
            return list(document.html.css(self.css.query))
        containers = document.html.css(self.container_css.query)
        if not containers:
            raise Misfit(f"the container {self.inside!r} is not on the page")
        found = chain.from_iterable(self.css.nodes(container) for container in containers)
        return list({node.mem_id: node for node in found}.values())

    def _xpath_rows(self, document: Document) -> list[Any]:
        try:
            if self.container_xpath is None:
                return self.xpath.nodes(document.tree)
            containers = self.container_xpath.nodes(document.tree)
            if not containers:
                raise Misfit(f"the container {self.inside!r} is not on the page")
            found = chain.from_iterable(self.xpath.nodes(container) for container in containers)
            return list({id(row): row for row in found}.values())
        except (etree.XPathError, TypeError) as error:
            raise Misfit(f"the XPath cannot be read: {error}") from error
