"""The composition root: settings → objects. The only layer that names concrete classes."""

from fyke.app.run import run_for_ever, run_once_here, run_worker
from fyke.app.sources import apply_sources, read_sources
from fyke.app.stores import Stores, SystemClock, open_stores

__all__ = [
    "Stores",
    "SystemClock",
    "apply_sources",
    "open_stores",
    "read_sources",
    "run_for_ever",
    "run_once_here",
    "run_worker",
]
