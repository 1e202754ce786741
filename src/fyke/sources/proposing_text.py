"""A proposal as the text of a source file, in the form that a person would write: one idea a line, with its figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z][\w./-]*(?: [\w./>-]+)*", re.ASCII)
# What stands in a YAML file only with its number.
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
# What YAML 1.1 readers take for something else.
_WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def scalar(value: Any) -> str:
    """One value of a flow mapping."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if "\\" in text and not _ESCAPED.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", escaped) + '"'


def flow(value: Any) -> str:
    """A value in one line: `{css: "a::attr(href)", then: [absolute_url]}`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(name)}: {flow(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def source_text(data: Mapping[str, Any], head: Sequence[str], remarks: Mapping[str, str]) -> str:
    """The file. `remarks`: what is said behind a line, by its dotted place such as `listing.rows`."""
    lines = [f"# {_one_line(line)}" for line in head]
    for name, value in data.items():
        if name == "listing":
            lines.append("listing:")
            for key, part in value.items():
                if key == "fields":
                    lines.append("  fields:")
                    lines += [
                        _line(f"    {field}: {flow(spec)}", remarks.get(f"listing.fields.{field}"))
                        for field, spec in part.items()
                    ]
                else:
                    lines.append(_line(f"  {key}: {flow(part)}", remarks.get(f"listing.{key}")))
        else:
            lines.append(_line(f"{name}: {flow(value)}", remarks.get(name)))
    return "\n".join(lines) + "\n"


def _line(text: str, remark: str | None) -> str:
    return f"{text}  # {_one_line(remark)}" if remark else text


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]", " ", text)
