"""The composition root: settings → objects. The only layer that names concrete classes."""

from fyke.app.roles import ChildCommand, run_for_ever, run_reconciler, run_scheduler, run_worker, run_workers
from fyke.app.run import run_once_here
from fyke.app.sources import (
    apply_folder,
    apply_sources,
    find_source,
    named_sources,
    pick_sources,
    read_sources,
    submitted_entries,
    with_files,
)
from fyke.app.stores import Desk, Stores, SystemClock, open_database, open_desk, open_ledger, open_stores

__all__ = [
    "ChildCommand",
    "Desk",
    "Stores",
    "SystemClock",
    "apply_folder",
    "apply_sources",
    "find_source",
    "named_sources",
    "open_database",
    "open_desk",
    "open_ledger",
    "open_stores",
    "pick_sources",
    "read_sources",
    "run_for_ever",
    "run_once_here",
    "run_reconciler",
    "run_scheduler",
    "run_worker",
    "run_workers",
    "submitted_entries",
    "with_files",
]
