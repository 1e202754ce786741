"""Every key, selector and step of the language by its path, with what it means and an example.

The reference is written from this, and tests load each example as part of a whole source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fyke.sources.examples import EXAMPLES
from fyke.sources.fieldshape import FIELD_KEYS
from fyke.sources.schema import SOURCE
from fyke.sources.selectors import KINDS
from fyke.sources.shapes import Either, Key, ListOf, MapOf, Section, Shape, Text
from fyke.sources.steps import STEPS

FIELD: Final = "field"
STEP: Final = "step"


@dataclass(frozen=True)
class Told:
    """One key: its path, what it means, the section that it stands in (None: it is a step)."""

    path: str
    text: str
    section: Section | None = None
    required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def example(self) -> str:
        """A value as YAML; of what belongs to a field, the whole field. Empty where none is written yet."""
        return EXAMPLES.get(self.path, "")


def file_keys() -> Iterator[Told]:
    """The keys of a source file but those of its fields: `listing.pages.max`, `detail.steps[].ready`."""
    yield from _below(SOURCE, "", set())


def selector_keys() -> Iterator[Told]:
    """The selectors: `field.css`."""
    yield from (_told(f"{FIELD}.{name}", FIELD_KEYS[name]) for name in KINDS)


def field_keys() -> Iterator[Told]:
    """What a field may have besides its selector: `field.required`."""
    yield from (_told(f"{FIELD}.{name}", key) for name, key in FIELD_KEYS.items() if name not in KINDS)


def step_keys() -> Iterator[Told]:
    """The steps, each before the keys of its argument: `step.money`, `step.money.currency`."""
    for name, kind in STEPS.items():
        yield Told(f"{STEP}.{name}", kind.doc)
        for suffix, section in _sections(kind.argument) if kind.argument else ():
            yield from _below(section, f"{STEP}.{name}{suffix}.", set())


def all_keys() -> list[Told]:
    return [*file_keys(), *selector_keys(), *field_keys(), *step_keys()]


def _below(section: Section, path: str, told: set[int]) -> Iterator[Told]:
    for name, key in section.keys.items():
        yield _told(f"{path}{name}", key, section)
        for suffix, part in _sections(key.shape):
            # A request is told once; where it stands again, its own row says so.
            if id(part) not in told:
                told.add(id(part))
                yield from _below(part, f"{path}{name}{suffix}.", told)


def _told(path: str, key: Key, section: Section | None = None) -> Told:
    choices = key.shape.choices if isinstance(key.shape, Text) else ()
    return Told(path, key.doc, section, key.required, choices)


def _sections(shape: Shape) -> Iterator[tuple[str, Section]]:
    """The sections that a value may be, with what stands between it and their keys."""
    if isinstance(shape, Section):
        yield "", shape
    elif isinstance(shape, ListOf):
        yield from ((f"[]{suffix}", section) for suffix, section in _sections(shape.part))
    elif isinstance(shape, MapOf):
        yield from ((f".NAME{suffix}", section) for suffix, section in _sections(shape.part))
    elif isinstance(shape, Either):
        yield from (found for _, part in shape.kinds for found in _sections(part))
