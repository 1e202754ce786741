"""The desk on MariaDB keeps the contract."""

import pytest

from fyke.testing.desk_contract import DeskContract
from tests.contract.desk_on_server import DeskOnServer


@pytest.fixture
def kind() -> str:
    return "mariadb"


class TestDeskOfMariaDB(DeskOnServer, DeskContract):
    """The contract, and what only a server can show."""
