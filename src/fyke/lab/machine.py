"""What a figure was measured on: no figure is worth anything without it."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from msgspec import Struct

from fyke import __version__


class Machine(Struct, frozen=True):
    date: str
    processor: str
    cores: int
    system: str
    python: str
    fyke: str
    load_before: float


def machine() -> Machine:
    """What it is measured on, and how busy that was before."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return Machine(
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        processor=models[0] if models else platform.processor(),
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        fyke=__version__,
        load_before=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
    )


def told(here: Machine) -> str:
    """In one sentence, with how busy the machine was before."""
    return (
        f"Fyke {here.fyke} on {here.processor}, {here.cores} cores, {here.system}, Python {here.python}, {here.date}; "
        f"load of the machine before: {here.load_before:g}."
    )
