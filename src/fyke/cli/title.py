"""Takes passwords that stand in this process' command line out of what `ps` shows of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# Fields of /proc/self/stat after the name, where the arguments begin and end in our memory.
ARG_START: Final = 45
ARG_END: Final = 46


def hide_in_title(secrets: Sequence[str]) -> None:
    """Write stars over `secrets` in the command line of this process; on other systems than Linux nothing is done.

    For a moment at the start they were seen: `FYKE_LEDGER` and `fyke.toml` are better places for them.
    """
    if sys.platform != "linux" or not secrets:
        return
    # It takes a while to load, and hardly a command needs it.
    import ctypes

    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start, end = int(fields[ARG_START]), int(fields[ARG_END])
        shown = Path("/proc/self/cmdline").read_bytes()
        if not 0 < start < end or end - start != len(shown):
            return
        safe = shown
        for secret in secrets:
            raw = os.fsencode(secret)
            safe = safe.replace(raw, b"*" * len(raw))
        ctypes.memmove(start, safe, len(safe))
