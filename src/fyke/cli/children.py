"""How worker processes are started: with the same settings, and with no secret in their command line."""

from __future__ import annotations

import sys

from fyke.app import ChildCommand
from fyke.settings import Loaded, all_settings


def child_command(loaded: Loaded) -> ChildCommand:
    """A worker process that has our settings: what flags said goes into its variables, which no process list shows."""
    variables = {setting.name: setting.variable for setting in all_settings()}
    return ChildCommand(
        command=(sys.executable, "-m", "fyke", "worker", "--as-child"),
        environ={variables[name]: value for name, value in loaded.flags.items()},
        count_flag="--restarts",
    )
