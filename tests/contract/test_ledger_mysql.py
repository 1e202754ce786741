"""The ledger keeps its contract on MariaDB."""

import pytest

from fyke.testing.ledger_contract import LedgerContract
from tests.contract.ledger_cases import LedgerCases
from tests.contract.server_cases import LedgerOnServer, ServerCases


@pytest.fixture(params=["mariadb"])
def server_kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


class TestContract(LedgerOnServer, LedgerContract):
    pass


class TestCases(LedgerOnServer, LedgerCases):
    pass


class TestServer(ServerCases):
    pass
