"""A lock with an end: it saves double work. Nothing that is promised depends on it."""

from __future__ import annotations

from typing import Protocol


class Lock(Protocol):
    """One holder a name, as far as the server knows; a holder that is paused or cut off loses it after `ms`.

    All methods raise TransientError where the server is away.
    """

    async def acquire(self, name: str, owner: str, ms: int) -> int | None:
        """Take a free lock: the fencing token, greater than any that was given for this name before; None where
        somebody holds it, also where that is `owner`.
        """
        ...

    async def renew(self, name: str, owner: str, token: int, ms: int) -> bool:
        """Hold it for another `ms` from now; False, and nothing changed, where it is not held with this token."""
        ...

    async def release(self, name: str, owner: str, token: int) -> bool:
        """Free it; False, and nothing changed, where it is not held with this token."""
        ...
