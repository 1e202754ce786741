"""What each stage of the pipeline took in, gave out and failed (S010): trigger, list, dedup, flow, collect, store."""

from __future__ import annotations

STAGES = ("trigger", "list", "dedup", "flow", "collect", "store")


class Stages:
    """Counters since the process began; each worker's are kept with its heartbeat and summed by `fyke status`."""

    def __init__(self) -> None:
        self._counts = {stage: {"in": 0, "out": 0, "failed": 0} for stage in STAGES}

    def add(self, stage: str, *, took: int = 0, gave: int = 0, failed: int = 0) -> None:
        counts = self._counts[stage]
        counts["in"] += took
        counts["out"] += gave
        counts["failed"] += failed

    def snapshot(self) -> dict[str, dict[str, int]]:
        return {stage: dict(counts) for stage, counts in self._counts.items()}
