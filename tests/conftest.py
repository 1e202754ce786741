"""What all tests share: whether a missing back end is a skip or a failure."""

import os
from collections.abc import Callable
from typing import NoReturn

import pytest
from hypothesis import settings

from tests.ledgers import empty_ledger_url, migrated_databases, open_database
from tests.servers import fresh_database, fresh_redis, own_maria, own_postgres, own_redis, servers

# The servers' fixtures are everybody's.
__all__ = [
    "empty_ledger_url",
    "fresh_database",
    "fresh_redis",
    "migrated_databases",
    "open_database",
    "own_maria",
    "own_postgres",
    "own_redis",
    "servers",
]

# A busy machine is no failure; time is measured by the tests marked `serial`.
settings.register_profile("fyke", deadline=None, print_blob=True)
settings.load_profile("fyke")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-backends",
        action="store_true",
        default=os.environ.get("CI", "").lower() not in ("", "0", "false"),
        help="a back end that cannot be started fails its tests (on when CI is set)",
    )


@pytest.fixture(scope="session")
def backend_missing(request: pytest.FixtureRequest) -> Callable[[str], NoReturn]:
    """End the test for want of a back end: a skip at home, a failure in CI."""
    required: bool = request.config.getoption("--require-backends")

    def end(reason: str) -> NoReturn:
        if required:
            pytest.fail(f"{reason} (--require-backends)", pytrace=False)
        pytest.skip(reason)

    return end
