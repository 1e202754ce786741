"""When a source is due: cron in an IANA zone, with late runs merged into one slot.

A slot is a due moment in ms. Expressions with fixed hours follow the wall clock (a time in the skipped hour is the
moment the gap ends, one in the repeated hour is the first of the two); those with a wildcard or step hour run by
elapsed time (Debian cron's rules, as cronsim implements them).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError
from msgspec import Struct

from fyke.errors import UsageError, nearest


class DueSlot(Struct, frozen=True):
    """`slot`: the latest due moment; `covers_from`: the first one missed, where several are merged; `late_ms`."""

    slot: int
    covers_from: int | None
    late_ms: int


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name.

    Raises:
        UsageError: there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = nearest(name, available_timezones()) or "use an IANA name such as Asia/Shanghai"
        raise UsageError(f"unknown time zone '{name}'", field="schedule.timezone", hint=hint) from error


def check_cron(expression: str) -> None:
    """Raises UsageError where the expression cannot be read, or never comes due."""
    try:
        next(CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, ValueError, StopIteration) as error:
        why = "it never comes due" if isinstance(error, StopIteration) else error
        raise UsageError(
            f"'{expression}' is no cron expression: {why}",
            field="schedule.cron",
            hint="five fields: minute hour day month weekday, e.g. '0 8 * * *'",
        ) from error


def _at(ms: int, tz: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz)


def next_slots(cron: Sequence[str], timezone: str, after: int, count: int) -> list[int]:
    """The next `count` due moments after `after`, over all expressions, each once."""
    tz = zone(timezone)
    found = {slot for expression in cron for slot in islice(_slots(expression, tz, after), count)}
    return sorted(found)[:count]


def due_slot(cron: Sequence[str], timezone: str, after: int, now: int) -> DueSlot | None:
    """The latest due moment in (after, now], merged with those before it that were missed; None where none is due."""
    tz = zone(timezone)
    slots = [slot for expression in cron if (slot := _latest(expression, tz, after, now)) is not None]
    if not slots:
        return None
    first, slot = next_slots(cron, timezone, after, 1)[0], max(slots)
    return DueSlot(slot, first if first < slot else None, now - slot)


def _slots(expression: str, tz: ZoneInfo, after: int) -> Iterator[int]:
    """The due moments after `after`, each once and in order.

    CronSim starts from wall time: within the repeated hour it gives slots of the first one again, and all the times of
    the skipped hour are one moment.
    """
    last = after
    for tick in CronSim(expression, _at(after, tz)):
        moment = round(tick.timestamp() * 1000)
        if moment > last:
            last = moment
            yield moment


def _latest(expression: str, tz: ZoneInfo, after: int, now: int) -> int | None:
    """Walk back some ticks, then forward: only forward iteration knows which of two equal wall times counts."""
    back = CronSim(expression, _at(now, tz) + timedelta(seconds=1), reverse=True)
    near = [round(tick.timestamp() * 1000) - 1000 for tick in islice(back, 3)]
    start = max(after, near[-1]) if len(near) == 3 else after
    latest = None
    for slot in _slots(expression, tz, start):
        if slot > now:
            break
        latest = slot
    return latest
