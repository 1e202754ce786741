"""The seams of Fyke: what the pipeline asks of its back ends, as protocols and prose.

Batches everywhere, async only, no optional methods: a back end that cannot keep a contract is not a back end. The
contract suites of `fyke.testing` hold each implementation to what is written here.
"""

from fyke.ports.fetcher import Fetcher, Gate, Robots
from fyke.ports.frontier import Frontier
from fyke.ports.known import FilterStats, KnownFilter
from fyke.ports.ledger import Desk, ItemBook, Ledger, RunBook, SourceBook, StateBook
from fyke.ports.lock import Lock
from fyke.ports.source import Source, SourceChecks, SourceConnect, SourceFill, SourceSchedule
from fyke.ports.time import Clock

__all__ = [
    "Clock",
    "Desk",
    "Fetcher",
    "FilterStats",
    "Frontier",
    "Gate",
    "ItemBook",
    "KnownFilter",
    "Ledger",
    "Lock",
    "Robots",
    "RunBook",
    "Source",
    "SourceBook",
    "SourceChecks",
    "SourceConnect",
    "SourceFill",
    "SourceSchedule",
    "StateBook",
]
