"""Runs plain functions on the event loop: each question to the server switches to the loop, and back with the answer.

So the ledgers and the sql frontier are written once, as plain functions of a connection, for all databases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class _Call(greenlet):  # type: ignore[misc]
    """A function that may ask."""


async def bridged(call: Callable[..., T], *values: Any) -> T:
    """The function's answer. What it asks (`ask`) is awaited here, and errors reach it where it asked."""
    child = _Call(call)
    child.gr_context = getcurrent().gr_context
    found = child.switch(*values)
    while not child.dead:
        try:
            answer = await found
        except BaseException as error:  # noqa: BLE001 - raised in the function that has asked
            found = child.throw(error)
        else:
            found = child.switch(answer)
    answered: T = found
    return answered


def ask(question: Awaitable[T]) -> T:
    """Await from inside a bridged function."""
    here = getcurrent()
    if not isinstance(here, _Call):
        raise RuntimeError("a connection can be used only inside the call that it was made for")  # noqa: TRY004 - not the question is wrong
    answer: T = here.parent.switch(question)
    return answer
