"""Durations, sizes and rates as people write them: `36h`, `50MB`, `6/min`. Whole milliseconds and bytes come out."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from types import MappingProxyType
from typing import Final

SECONDS: Final = MappingProxyType(
    {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "min": Decimal(60), "h": Decimal(3_600)}
    | {"d": Decimal(86_400), "w": Decimal(604_800)}
)
BYTES: Final = MappingProxyType(
    {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
)
PER: Final = MappingProxyType(
    {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3_600, "hour": 3_600}
    | {"d": 86_400, "day": 86_400}
)
# Ten years: longer is a slip of the keyboard, and fits every integer column.
LONGEST_MS: Final = 315_360_000_000
LARGEST_BYTES: Final = 2**50

_AMOUNT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z]+)", re.ASCII)
_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?/ ?([a-z]+)", re.ASCII)


def parse_duration(text: str) -> int:
    """Milliseconds of `500ms`, `30s`, `10m`, `36h`, `7d` or `2w`; `0` needs no unit.

    Raises:
        ValueError: not such a text; the message is for people.
    """
    text = text.strip()
    if text == "0":
        return 0
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2] not in SECONDS:
        raise ValueError(f"{text!r} is no duration; write for example 30s, 10m, 36h or 7d")
    value = Decimal(match[1]) * SECONDS[match[2]] * 1_000
    if value != int(value):
        raise ValueError(f"{text!r} is finer than a millisecond")
    if value > LONGEST_MS:
        raise ValueError(f"{text!r} is longer than ten years")
    return int(value)


def parse_size(text: str) -> int:
    """Bytes of `800kB`, `50MB` (powers of ten) or `64KiB`, `1MiB` (powers of two); a bare number is bytes.

    Raises:
        ValueError: not such a text; the message is for people.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal():
        value = Decimal(text)
    else:
        match = _AMOUNT.fullmatch(text)
        if match is None or match[2] not in BYTES:
            raise ValueError(f"{text!r} is no size; write for example 800kB, 50MB or 1GB")
        value = Decimal(match[1]) * BYTES[match[2]]
    if value != int(value):
        raise ValueError(f"{text!r} is no whole number of bytes")
    if value > LARGEST_BYTES:
        raise ValueError(f"{text!r} is larger than 1 PB")
    return int(value)


def parse_rate(text: str) -> int:
    """The gap in milliseconds that `6/min`, `1/s`, `100/h` or `500/day` leaves between two; rounded up.

    Raises:
        ValueError: not such a text; the message is for people.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None or match[2] not in PER:
        raise ValueError(f"{text!r} is no rate; write for example 1/s, 6/min or 100/h")
    number = Decimal(match[1])
    if number == 0:
        raise ValueError(f"{text!r} would never ask; a rate is above 0")
    # Rounded up: a rate is a limit.
    return int((PER[match[2]] * 1_000 / number).to_integral_value(ROUND_CEILING))


def write_duration(ms: int) -> str:
    """The shortest text that `parse_duration` reads as `ms`."""
    for unit in ("d", "h", "m", "s"):
        length = int(SECONDS[unit] * 1_000)
        if ms and ms % length == 0:
            return f"{ms // length}{unit}"
    return f"{ms}ms" if ms else "0"


def write_size(size: int) -> str:
    """The shortest text that `parse_size` reads as `size`."""
    for unit in ("GiB", "GB", "MiB", "MB", "KiB", "kB"):
        if size and size % BYTES[unit] == 0:
            return f"{size // BYTES[unit]}{unit}"
    return str(size)
