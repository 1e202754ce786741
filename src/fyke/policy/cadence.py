"""When a source is due: cron in an IANA zone, with late runs merged into one slot.

A slot is a due moment in ms. Expressions with fixed hours follow the wall clock (a time in the skipped hour is the
moment the gap ends, one in the repeated hour is the first of the two); those with a wildcard or step hour run by
elapsed time (Debian cron's rules, as cronsim implements them).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

from fyke.errors import UsageError


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
        raise UsageError(
            f"unknown time zone '{name}'", field="schedule.timezone", hint="use an IANA name such as Asia/Shanghai"
        ) from error


def check_cron(expression: str) -> None:
    """Raises UsageError where the expression cannot be read."""
    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise UsageError(
            f"'{expression}' is no cron expression: {error}",
            field="schedule.cron",
            hint="five fields: minute hour day month weekday, e.g. '0 8 * * *'",
        ) from error


def _at(ms: int, tz: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def next_slots(cron: Sequence[str], timezone: str, after: int, count: int) -> list[int]:
    """The next `count` due moments after `after`, over all expressions, each once."""
    tz, found = zone(timezone), set[int]()
    for expression in cron:
        ticks = CronSim(expression, _at(after, tz))
        for _ in range(count):
            try:
                found.add(_ms(next(ticks)))
            except StopIteration:
                break
    return sorted(found)[:count]


def due_slot(cron: Sequence[str], timezone: str, after: int, now: int) -> DueSlot | None:
    """The latest due moment in (after, now], merged with those before it that were missed; None where none is due."""
    tz = zone(timezone)
    slots = [slot for expression in cron if (slot := _latest(expression, tz, after, now)) is not None]
    if not slots:
        return None
    first = next_slots(cron, timezone, after, 1)[0]
    slot = max(slots)
    return DueSlot(slot, first if first < slot else None, now - slot)


def _latest(expression: str, tz: ZoneInfo, after: int, now: int) -> int | None:
    """Walk back two ticks, then forward: only forward iteration knows which of two equal wall times counts."""
    start_here = after
    back = CronSim(expression, _at(now, tz) + timedelta(seconds=1), reverse=True)
    for _ in range(3):
        try:
            start_here = _ms(next(back))
        except StopIteration:
            start_here = after
            break
    start = max(after, start_here - 1000)
    latest = None
    for tick in CronSim(expression, _at(start, tz)):
        moment = _ms(tick)
        if moment > now:
            break
        latest = moment
    return latest if latest is not None and latest > after else None
