"""Write what the reference takes from the code, in English and in Chinese; a test compares the pages with it.

A page says by a comment what belongs into it: `<!-- written by scripts/reference.py: settings -->` … `<!-- end -->`.
Chinese texts stand in docs/zh/catalogue.toml; a text that is not there stays English, and a test names it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from fyke.cli import app
from fyke.settings import Lane, all_settings, shown
from fyke.sources.reference import Told, field_keys, file_keys, selector_keys, step_keys
from fyke.sources.schema import LATER
from fyke.sources.shapes import NO_EFFECT, REFUSED

FOLDER = Path(__file__).resolve().parents[1] / "docs"
CATALOGUE = FOLDER / "zh" / "catalogue.toml"

_PART = re.compile(r"(<!-- written by scripts/reference\.py: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
# What `bench` measures is written into the English page, and taken over as it is.
_FIGURES = re.compile(r"<!-- figures: .+? -->\n.*?<!-- end of figures -->", re.DOTALL)

Say = Callable[[str], str]


class Catalogue:
    """Chinese for English; it remembers what it was asked for."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.asked: dict[str, None] = {}

    @classmethod
    def read(cls) -> Catalogue:
        with CATALOGUE.open("rb") as file:
            return cls({key: text for part in tomllib.load(file).values() for key, text in part.items()})

    def say(self, text: str) -> str:
        """Paragraph by paragraph; what is not there stays as it is."""
        return "\n\n".join(self._say(part) for part in re.split(r"\n\s*\n", text))

    def _say(self, text: str) -> str:
        text = " ".join(text.split())
        if not text:
            return text
        self.asked[text] = None
        return self.texts.get(text, text)

    def missing(self) -> list[str]:
        return [text for text in self.asked if text not in self.texts]

    def stale(self) -> list[str]:
        return [text for text in self.texts if text not in self.asked]


def english(text: str) -> str:
    return text


# --- Settings ---


def settings(say: Say) -> str:
    head = _head(say, "setting", "default", "variable", "what it says")
    return head + "".join(
        _row(f"`{each.name}`", _code(shown(each, each.default)), f"`{each.variable}`", _sentences(say, each))
        for each in all_settings()
    )


def lanes(say: Say) -> str:
    rows = [_row(f"`{each.name}`", say(each.text)) for each in all_settings(Lane)]
    return _head(say, "setting", "what it says") + "".join(rows)


def _sentences(say: Say, setting: Any) -> str:
    limits = setting.limits
    if setting.choices:
        return f"{say(setting.text)} {say('One of {choices}.').format(choices=', '.join(setting.choices))}"
    if "max" in limits:
        return f"{say(setting.text)} {say('{least} to {most}.').format(least=limits['min'], most=limits['max'])}"
    return say(setting.text)


# --- Commands ---


def commands(say: Say) -> str:
    return "".join(_command(say, "fyke", typer.main.get_command(app)))


def _command(say: Say, name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n## `{name}`\n\n{say((command.help or '').strip())}\n\n```\n{name} {usage}\n```\n"
    rows = [_parameter(say, each) for each in command.params if not getattr(each, "hidden", False)]
    if rows:
        yield "\n" + _head(say, "option", "what it does") + "".join(rows)
    if command.epilog:
        yield f"\n{_epilog(say, command.epilog)}\n"
    if hasattr(command, "list_commands"):
        for below in command.list_commands(context):
            yield from _command(say, f"{name} {below}", command.get_command(context, below))


def _epilog(say: Say, epilog: str) -> str:
    mark = "Example: "
    return f"{say(mark.strip())} `{epilog.removeprefix(mark)}`" if epilog.startswith(mark) else say(epilog)


def _parameter(say: Say, each: Any) -> str:
    if each.param_type_name == "argument":
        name = each.metavar or each.name.upper()
    else:
        name = ", ".join(each.opts) + ("" if each.is_flag else f" {each.metavar or 'VALUE'}")
    text = say(each.help or "")
    if each.default not in (None, False, (), "") and not each.required and not callable(each.default):
        text += " " + say("Default: {value}.").format(value=getattr(each.default, "value", each.default))
    return _row(f"`{name}`", text)


# --- The source file ---


def keys(say: Say, *tops: str) -> str:
    """The keys below these; `top`: those that stand above all others."""
    top = tops == ("top",)
    told = [key for key in file_keys() if ("." not in key.path) == top and (top or key.path.split(".")[0] in tops)]
    return _head(say, "key", "means", "example") + _told(say, told)


def later(say: Say, effect: str) -> str:
    """The keys that come later, of one effect."""
    found = [place for place, of in LATER.items() if of == effect]
    names = [key if section == "source" else f"{section}.{key}" for section, key in found]
    return "\n".join(f"- `{name}`" for name in names) + "\n" if names else say("None.") + "\n"


def _told(say: Say, told: Iterable[Told], cut: str = "") -> str:
    return "".join(
        _row(f"`{key.path.removeprefix(cut)}`", _meaning(say, key), f"`{_line(key, cut)}`" if key.example else "")
        for key in told
    )


def _line(key: Told, cut: str) -> str:
    return key.example if cut else f"{key.name}: {key.example}"


def _meaning(say: Say, key: Told) -> str:
    parts = [say(key.text)]
    if not all(re.search(rf"\b{choice}\b", key.text) for choice in key.choices if choice.isalpha()):
        parts.append(say("One of {choices}.").format(choices=", ".join(f"`{choice}`" for choice in key.choices)))
    if key.required:
        parts.append(say("Required."))
    return " ".join(parts)


def selectors(say: Say) -> str:
    return _head(say, "selector", "reads", "example") + _told(say, selector_keys(), "field.")


def duties(say: Say) -> str:
    return _head(say, "besides", "means", "example") + _told(say, field_keys(), "field.")


def steps(say: Say) -> str:
    return _head(say, "step", "does", "example") + _told(say, step_keys(), "step.")


# --- Pages ---


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |\n"


def _head(say: Say, *cells: str) -> str:
    return _row(*map(say, cells)) + "|" + "---|" * len(cells) + "\n"


PARTS: Mapping[str, Callable[..., str]] = MappingProxyType(
    {
        "settings": settings,
        "lanes": lanes,
        "commands": commands,
        "keys": keys,
        "selectors": selectors,
        "duties": duties,
        "steps": steps,
        "warned": partial(later, effect=NO_EFFECT),
        "refused": partial(later, effect=REFUSED),
    }
)


def written(path: str, catalogue: Catalogue | None = None) -> str:
    """The page, below docs/, as it has to be."""
    text = (FOLDER / path).read_text(encoding="utf-8")
    chinese = path.startswith("zh/")
    say = (catalogue or Catalogue.read()).say if chinese else english

    def part(found: re.Match[str]) -> str:
        name, *arguments = found[2].split()
        text = PARTS[name](say, *arguments).strip("\n")
        return f"{found[1]}\n{text.replace('。 ', '。') if chinese else text}\n\n{found[3]}"

    if chinese and _FIGURES.search(text):
        figures = iter(_FIGURES.findall((FOLDER / path.removeprefix("zh/")).read_text(encoding="utf-8")))
        text = _FIGURES.sub(lambda _: next(figures), text)
    return _PART.sub(part, text)


def pages() -> list[str]:
    """The pages that have such parts."""
    texts = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.md")}
    return sorted(
        path for path, text in texts.items() if _PART.search(text) or (path.startswith("zh/") and _FIGURES.search(text))
    )


PAGES: Mapping[str, Callable[[], str]] = MappingProxyType({path: partial(written, path) for path in pages()})


def main() -> None:
    for name, page in PAGES.items():
        text = page()
        if text != (FOLDER / name).read_text(encoding="utf-8"):
            (FOLDER / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"{FOLDER / name}\n")


if __name__ == "__main__":
    main()
