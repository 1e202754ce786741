"""YAML into plain data and the line of each part: YAML 1.2, no tags, no duplicate keys, bounded size.

`on`, `off`, `yes`, `no`, `12:30` and dates stay text; so does a number that would lose digits (`01`, `1_000`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fyke.errors import UsageError
from fyke.sources.faults import Path as Place
from fyke.sources.faults import dotted

LARGEST_FILE: Final = 1_000_000
MOST_PARTS: Final = 50_000
DEEPEST: Final = 50

_FLOAT: Final = re.compile(r"-?(?:0|[1-9]\d*)\.\d+", re.ASCII)
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_TAG: Final = "tag:yaml.org,2002:"


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Place, tuple[str, int]]]:
    """The mapping of a file, and for each part of it the file and line where it stands.

    Raises:
        UsageError: it cannot be read, is no YAML mapping, repeats a key or is too large.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", file=name) from error
    if len(raw) > LARGEST_FILE:
        raise UsageError(f"is larger than {LARGEST_FILE:,} bytes", file=name)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError("is not UTF-8", file=name, line=line, hint="write the file in UTF-8") from error
    return parse_yaml(text, name)


def parse_yaml(text: str, name: str) -> tuple[dict[str, Any], dict[Place, tuple[str, int]]]:
    """As `read_yaml`, from the text of the file `name`."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    try:
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(" ".join(part.split()) for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark else 1
        raise UsageError(f"is no YAML: {what}", file=name, line=line, field=_near(text, line), hint=_CLOSE) from error
    except (YAMLError, ValueError, RecursionError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        line = text.count("\n", 0, getattr(error, "position", None) or 0) + 1
        raise UsageError(f"is no YAML: {what}", file=name, line=line, field=_near(text, line), hint=_CLOSE) from error
    if not isinstance(node, MappingNode):
        raise UsageError("holds no mapping", file=name, line=1, field="id", hint="begin with `id: NAME`")
    reader = _Reader(name)
    data: dict[str, Any] = reader.value(node, ())
    return data, reader.lines


_CLOSE: Final = "look there and just above: indentation by blanks, a blank after each colon, brackets and quotes closed"
_KEY: Final = re.compile(r"( *)(?:- )?['\"]?([A-Za-z_][\w.-]*)['\"]?:")


def _near(text: str, line: int) -> str:
    """The key that a line stands at or below, for a text that cannot be read as a whole."""
    path: list[tuple[int, str]] = []
    for part in text.splitlines()[:line]:
        if found := _KEY.match(part.replace("\t", " ")):
            path = [(depth, name) for depth, name in path if depth < len(found[1])]
            path.append((len(found[1]), found[2]))
    return ".".join(name for _, name in path) or "id"


class _Reader:
    """Turns nodes into plain data. Aliases are copied, so the number of parts is bounded."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Place, tuple[str, int]] = {}
        self.parts = 0

    def value(self, node: Node, path: Place) -> Any:
        self.parts += 1
        if self.parts > MOST_PARTS or len(path) > DEEPEST:
            raise self.fault(node, path, "is too large or nested too deep", "a source file is short: take parts out")
        self.lines.setdefault(path, (self.name, node.start_mark.line + 1))
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            self.known_tag(node, path, "seq")
            return [self.value(part, (*path, at)) for at, part in enumerate(node.value)]
        return self.scalar(node, path)

    def mapping(self, node: MappingNode, path: Place) -> dict[str, Any]:
        self.known_tag(node, path, "map")
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self.fault(key_node, path, "a key is no text", "a key is one word; quote what begins with { or [")
            key = str(key_node.value)
            if key == "<<":
                raise self.fault(key_node, path, "the merge key << is not allowed", "profiles are merged by `extends`")
            if key in found:
                first = self.lines[(*path, key)][1]
                hint = "keep one of them"
                raise self.fault(
                    key_node, (*path, key), f"the key '{key}' is written twice, first in line {first}", hint
                )
            self.lines[(*path, key)] = (self.name, key_node.start_mark.line + 1)
            found[key] = self.value(value_node, (*path, key))
        return found

    def scalar(self, node: Node, path: Place) -> Any:
        text = str(node.value)
        tag = self.known_tag(node, path, "null", "bool", "int", "float", "str", "timestamp")
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if tag == "int" and _WHOLE.fullmatch(text):
            return int(text)
        if tag == "float" and _FLOAT.fullmatch(text):
            return float(text)
        return text

    def known_tag(self, node: Node, path: Place, *known: str) -> str:
        tag = str(node.tag).removeprefix(_TAG)
        if tag not in known:
            raise self.fault(node, path, f"the tag {node.tag} is not allowed", "quote what begins with !")
        return tag

    def fault(self, node: Node, path: Place, message: str, hint: str) -> UsageError:
        line = node.start_mark.line + 1
        return UsageError(message, file=self.name, line=line, field=dotted(path) or "id", hint=hint)
