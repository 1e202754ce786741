"""The arithmetic of a load test: rates, linearity, latencies, and which part limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

MIDDLE: Final = (0.1, 0.9)
FULL: Final = 0.85
# Parts that work in one thread: they are full at one core, however many there are.
ONE_THREAD: Final = ("site", "redis")


class Request(Struct, frozen=True, array_like=True, order=True):
    """One request: seconds since the round began, and what came."""

    start: float
    end: float
    what: str
    good: bool


class Sample(Struct, frozen=True):
    """What waits and what is in hand at one moment; CPU seconds used so far, by part."""

    at: float
    waiting: int
    in_hand: int
    cpu: dict[str, float]


class Limits(Struct, frozen=True, kw_only=True):
    """What a round could have used: cores, slots of all workers, and what politeness allows the host."""

    cores: int
    workers: int
    slots: int
    host_concurrency: int
    host_delay: float = 0.0


class Round(Struct, frozen=True, kw_only=True):
    """One number of workers."""

    workers: int
    limits: Limits
    requests: list[Request]
    samples: list[Sample]
    failures: int
    finished: bool

    @property
    def seconds(self) -> float:
        """From the first request to the end of the last one."""
        return max(one.end for one in self.requests) - min(one.start for one in self.requests) if self.requests else 0.0

    @property
    def per_second(self) -> float:
        return rate(self.requests)


class Verdict(Struct, frozen=True):
    """Which part limits, and the figure that says so."""

    part: str
    why: str


def window(requests: Sequence[Request]) -> tuple[float, float]:
    """The middle of the work: from where a tenth of the requests have ended to where nine tenths have."""
    ends = sorted(one.end for one in requests)
    if len(ends) < 2:
        return (ends[0], ends[0]) if ends else (0.0, 0.0)
    first, last = (min(int(len(ends) * share), len(ends) - 1) for share in MIDDLE)
    return ends[first], ends[last]


def rate(requests: Sequence[Request]) -> float:
    """Requests a second in the middle of the work; starting and running dry are left out."""
    start, end = window(requests)
    inside = sum(start < one.end <= end for one in requests)
    return inside / (end - start) if end > start else 0.0


def linearity(rates: Mapping[int, float]) -> dict[int, float]:
    """Per cent of what the smallest number of workers promises each other number."""
    if not rates:
        return {}
    base = min(rates)
    return {
        workers: 100 * found * base / (workers * rates[base]) if rates[base] else 0.0
        for workers, found in sorted(rates.items())
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them do not pass; 0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def in_flight(requests: Sequence[Request]) -> float:
    """Requests at the site at the same time, on average over the middle of the work."""
    start, end = window(requests)
    if end <= start:
        return 0.0
    return sum(max(0.0, min(one.end, end) - max(one.start, start)) for one in requests) / (end - start)


def cpu_shares(samples: Sequence[Sample], start: float, end: float) -> dict[str, float]:
    """Cores that each part used between the samples next to `start` and `end`."""
    inside = [one for one in samples if start <= one.at <= end]
    if len(inside) < 2:
        inside = list(samples)
    if len(inside) < 2 or inside[-1].at <= inside[0].at:
        return {}
    first, last = inside[0], inside[-1]
    return {part: max(0.0, used - first.cpu.get(part, used)) / (last.at - first.at) for part, used in last.cpu.items()}


def limiting(found: Round) -> Verdict:
    """Which part limits this round: what is full first, in the order in which one would mend it."""
    limits, flight = found.limits, in_flight(found.requests)
    cpu = cpu_shares(found.samples, *window(found.requests))
    if limits.host_delay and found.per_second >= FULL / limits.host_delay:
        return Verdict("politeness", f"one request each {limits.host_delay:g} s is what the host's policy allows")
    if limits.host_concurrency < limits.slots and flight >= FULL * limits.host_concurrency:
        return Verdict("politeness", f"the host's policy allows {limits.host_concurrency} at a time, {flight:.1f} were")
    for part in ONE_THREAD:
        if cpu.get(part, 0.0) >= FULL:
            return Verdict(part, f"it works in one thread and used {cpu[part]:.2f} of a core")
    each = cpu.get("workers", 0.0) / limits.workers
    if each >= FULL:
        return Verdict("workers' CPU", f"each worker process used {each:.2f} of a core")
    used = sum(cpu.values())
    if used >= FULL * limits.cores:
        most = max(cpu, key=lambda part: cpu[part])
        return Verdict(
            "this machine's cores", f"{used:.2f} of {limits.cores} were used, {cpu[most]:.2f} of them by the {most}"
        )
    if flight >= FULL * limits.slots:
        return Verdict("the site's latency", f"{flight:.1f} of {limits.slots} slots wait for the site")
    why = f"{flight:.1f} of {limits.slots} slots wait for the site, the others between two requests"
    return Verdict("ledger and frontier", f"{why}; {cpu.get('database', 0.0):.2f} of a core is used by the database")
