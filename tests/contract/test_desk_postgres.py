"""The desk on PostgreSQL 15 and 18 keeps the contract."""

import pytest

from fyke.testing.desk_contract import DeskContract
from tests.contract.desk_on_server import DeskOnServer


@pytest.fixture(params=["postgres-15", "postgres-18"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestDeskOfPostgres(DeskOnServer, DeskContract):
    """The contract, and what only a server can show."""
