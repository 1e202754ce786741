"""Reading of large answers in a thread, so that leases, pulses and other tasks go on meanwhile.

A sitemap of 50,000 addresses takes about a second. Small answers are read where they are: a thread costs more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from fyke.model import Response

LARGE: Final = 500_000
ASIDE_S: Final = 60.0

P = ParamSpec("P")
T = TypeVar("T")


async def read_aside(response: Response, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `read` makes of the answer; sources are pure and safe to call from threads."""
    if len(response.body) < LARGE:
        return read(*args, **kwargs)
    thread = ThreadPoolExecutor(1, "fyke-large")
    reading = thread.submit(read, *args, **kwargs)
    thread.shutdown(wait=False)
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(reading)), ASIDE_S)
    except TimeoutError:
        # What never ends must hold the loop, as it would without a thread: then the process ends itself (0015).
        return reading.result()
