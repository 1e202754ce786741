"""Empty servers for one scenario."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.pairs import REDIS, Addresses


@pytest.fixture
def addresses(fresh_database: Callable[[str], str], fresh_redis: Callable[..., str]) -> Addresses:
    """Of a pair of `pairs.PAIRS`: (ledger, frontier)."""

    def make(pair: str) -> tuple[str, str]:
        ledger = fresh_database("mariadb" if "mariadb" in pair else "postgres-15")
        return ledger, fresh_redis() if pair == REDIS else "sql"

    return make
