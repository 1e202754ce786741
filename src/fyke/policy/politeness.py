"""How fast a host may be asked: lane names, gaps with jitter, the strictest of several policies.

Keeps P4: whatever is merged, no start comes sooner than the most careful party allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec.structs import replace
from yarl import URL

from fyke.errors import UsageError
from fyke.model import LanePolicy

# An address whose host needs no reading: the rest of it cannot change the lane.
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?(?=/)")
LONGEST_GAP = 24 * 3_600_000
MOST_AT_ONCE = 1_000


def lane_of(url: str) -> str:
    """The lane of an address: its host as the wire names it, with the port where it is not the scheme's own.

    `https://Bücher.Example.:443/x` and `http://xn--bcher-kva.example/` share the lane `xn--bcher-kva.example`.

    Raises:
        UsageError: there is no host in it.
    """
    # Most addresses of a source share their beginning up to the path, and only that names the lane.
    plain = _ORIGIN.match(url)
    return _lane_of(plain[0] if plain else url)


@lru_cache(maxsize=4096)
def _lane_of(url: str) -> str:
    try:
        parsed = URL(url)
        host = (parsed.raw_host or "").rstrip(".").lower()
        port = parsed.explicit_port
    except ValueError as error:
        raise UsageError(f"not an address: {url!r}", hint=str(error)) from error
    if not host or parsed.scheme not in ("http", "https"):
        raise UsageError(f"not an address: {url!r}", hint="an address begins with http:// or https:// and a host")
    if ":" in host:
        host = f"[{host}]"
    return host if port is None or parsed.is_default_port() else f"{host}:{port}"


def least_gap(policy: LanePolicy) -> int:
    """The shortest time between two starts, in ms: the gap less its jitter, never below 0."""
    return max(0, policy.gap - policy.jitter)


def drawn_gap(gap: int, jitter: int, chance: float) -> int:
    """The time to the next start in ms, evenly between gap − jitter and gap + jitter; `chance` is from [0, 1).

    A gap of 0 means no pacing at all, whatever the jitter.
    """
    if gap <= 0:
        return 0
    shortest, longest = max(0, gap - jitter), gap + jitter
    return shortest + int(chance * (longest - shortest + 1))


def sane(policy: LanePolicy) -> LanePolicy:
    """The policy within its limits: gap 0 to a day, jitter 0 to the gap, 1 to 1,000 at once."""
    gap = min(max(0, policy.gap), LONGEST_GAP)
    return replace(
        policy,
        gap=gap,
        jitter=min(max(0, policy.jitter), gap),
        concurrency=min(max(1, policy.concurrency), MOST_AT_ONCE),
    )


def strictest(policies: Iterable[LanePolicy]) -> list[LanePolicy]:
    """One policy a lane, sorted by lane: the longest gap, the longest shortest gap, the fewest at once.

    The order of the policies does not matter, and merging twice changes nothing.
    """
    merged: dict[str, LanePolicy] = {}
    for policy in map(sane, policies):
        other = merged.get(policy.lane, policy)
        gap = max(policy.gap, other.gap)
        merged[policy.lane] = LanePolicy(
            lane=policy.lane,
            gap=gap,
            jitter=gap - max(least_gap(policy), least_gap(other)),
            concurrency=min(policy.concurrency, other.concurrency),
        )
    return [merged[lane] for lane in sorted(merged)]


def with_robots_delay(policy: LanePolicy, delay_ms: int | None) -> LanePolicy:
    """The policy with the host's Crawl-delay, which can only make it slower: no gap is shorter, jitter or not."""
    if not delay_ms or delay_ms <= least_gap(policy):
        return policy
    return strictest([policy, replace(policy, gap=delay_ms, jitter=0)])[0]
