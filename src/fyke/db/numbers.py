"""Numbers as every database gives them back: no digit is lost, and equal ones are equal in Python."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

WHOLE_LIMIT = 2**63
FLOAT_DIGITS = 15
LARGEST_EXPONENT = 1_000
WHOLE_DIGITS, DECIMALS = 35, 30  # of MariaDB's widest column, DECIMAL(65, 30)


def plain_number(exact: Decimal) -> int | float | str | None:
    """A whole number as int, what a float holds exactly as float, anything else as its digits; None for no number."""
    if not exact.is_finite() or abs(exact.adjusted()) > LARGEST_EXPONENT:
        return None
    if exact == exact.to_integral_value() and -WHOLE_LIMIT <= exact < WHOLE_LIMIT:
        return int(exact)
    digits = f"{exact:f}"
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    close = float(exact)
    if len(digits.lstrip("-0.").replace(".", "").rstrip("0")) <= FLOAT_DIGITS and Decimal(repr(close)) == exact:
        return close
    return digits


def for_mariadb(value: Any) -> Any:
    """A number as text, so that it arrives with all its digits.

    Raises:
        ValueError: it has more digits than the column, which would round it and say nothing.
    """
    if value is None:
        return None
    digits = f"{Decimal(repr(value) if isinstance(value, float) else value):f}"
    whole, _, decimals = digits.lstrip("-").partition(".")
    if len(whole) > WHOLE_DIGITS or len(decimals) > DECIMALS:
        shown = str(value) if len(str(value)) <= 60 else f"{str(value)[:57]}..."
        raise ValueError(
            f"{shown} has more digits than a number may have in MariaDB and MySQL: {WHOLE_DIGITS} before the point and"
            f" {DECIMALS} after it"
        )
    return digits
