"""What every ledger owes the person at its desk: subclass `DeskContract` and inherit every test.

Give the fixtures `ledger` (migrated and empty), `clock` (the ledger's own FakeClock) and `damage` (runs one SQL
statement against the ledger's database, behind its back).
"""

from fyke.testing.contract_audit import AuditContract
from fyke.testing.contract_decisions import DecisionContract
from fyke.testing.contract_items import ItemDeskContract
from fyke.testing.contract_keys import KeyContract
from fyke.testing.contract_letters import LetterContract
from fyke.testing.contract_repair import RepairContract

__all__ = [
    "AuditContract",
    "DecisionContract",
    "DeskContract",
    "ItemDeskContract",
    "KeyContract",
    "LetterContract",
    "RepairContract",
]


class DeskContract(LetterContract, DecisionContract, ItemDeskContract, AuditContract, RepairContract, KeyContract):
    """All of it."""
