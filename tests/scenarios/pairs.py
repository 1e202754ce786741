"""The pairs of frontier and ledger that the scenarios are played on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import pytest

REDIS: Final = "redis and postgres"
PAIRS: Final = (REDIS, "sql on postgres", "sql on mariadb")
# Where a scenario takes long: `make test` plays it on the first pair, `make crash` on the others.
QUICK: Final[dict[str, Sequence[pytest.MarkDecorator]]] = {
    pair: () if pair == REDIS else (pytest.mark.crash_long,) for pair in PAIRS
}

Addresses: TypeAlias = Callable[[str], tuple[str, str]]
