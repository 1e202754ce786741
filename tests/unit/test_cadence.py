"""When a run is due: clock changes, late schedulers, and words that are no schedule (SCENARIOS 4 and 22)."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.policy.cadence import DueSlot, check_cron, due_slot, next_slots, zone

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NEW_YORK, SHANGHAI = "America/New_York", "Asia/Shanghai"


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text + "+00:00").timestamp() * 1000)


def utc(slots: list[int]) -> list[str]:
    return [datetime.fromtimestamp(slot / 1000, UTC).strftime("%Y-%m-%d %H:%M") for slot in slots]


# Zones and clock changes


def test_eight_in_shanghai_is_midnight_utc_wherever_the_host_stands() -> None:
    code = (
        "from fyke.policy.cadence import next_slots, due_slot\n"
        f"print(next_slots(['0 8 * * *'], 'Asia/Shanghai', {ms('2026-11-01 12:00')}, 2))\n"
        f"print(due_slot(['0 8 * * *'], 'Asia/Shanghai', 0, {ms('2026-11-02 00:00')}).slot)\n"
    )
    slots = [ms("2026-11-02 00:00"), ms("2026-11-03 00:00")]
    for host in (None, "America/New_York", "Pacific/Kiritimati"):
        env = {name: value for name, value in os.environ.items() if name != "TZ"} | ({"TZ": host} if host else {})
        out = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
        assert out == f"{slots}\n{slots[0]}\n"


def test_a_time_in_the_skipped_hour_runs_once_when_the_gap_ends() -> None:
    slots = next_slots(["30 2 * * *"], NEW_YORK, ms("2027-03-13 12:00"), 2)
    assert utc(slots) == ["2027-03-14 07:00", "2027-03-15 06:30"]


def test_a_time_in_the_repeated_hour_runs_once_at_the_first_of_the_two() -> None:
    slots = next_slots(["30 1 * * *"], NEW_YORK, ms("2026-10-31 12:00"), 2)
    assert utc(slots) == ["2026-11-01 05:30", "2026-11-02 06:30"]


@pytest.mark.parametrize("after", ["2026-11-01 05:30", "2026-11-01 06:10", "2026-11-01 06:30", "2026-11-01 06:59"])
def test_the_second_of_two_equal_hours_brings_nothing_back(after: str) -> None:
    assert utc(next_slots(["30 1 * * *"], NEW_YORK, ms(after), 1)) == ["2026-11-02 06:30"]
    assert due_slot(["30 1 * * *"], NEW_YORK, ms(after), ms("2026-11-01 07:00")) is None


def test_a_slot_missed_in_the_repeated_hour_is_not_said_to_cover_one_that_was_taken() -> None:
    due = due_slot(["30 1,2 * * *"], NEW_YORK, ms("2026-11-01 06:10"), ms("2026-11-01 08:00"))
    assert due == DueSlot(ms("2026-11-01 07:30"), None, 30 * MINUTE)


def test_all_the_times_of_the_skipped_hour_are_one_slot() -> None:
    slots = next_slots(["0,20,40 2 * * *"], NEW_YORK, ms("2027-03-14 06:00"), 3)
    assert utc(slots) == ["2027-03-14 07:00", "2027-03-15 06:00", "2027-03-15 06:20"]


@pytest.mark.parametrize("cron", ["*/30 * * * *", "*/30 */1 * * *", "0,30 * * * *"])
def test_wildcard_hours_run_by_elapsed_time(cron: str) -> None:
    for start in ("2026-11-01 04:00", "2027-03-14 05:00"):
        assert next_slots([cron], NEW_YORK, ms(start), 8) == [ms(start) + n * HOUR // 2 for n in range(1, 9)]


def test_a_zone_that_shifts_by_half_an_hour_and_one_that_lost_a_day() -> None:
    assert utc(next_slots(["15 2 * * *"], "Australia/Lord_Howe", ms("2026-10-03 00:00"), 1)) == ["2026-10-03 15:30"]
    assert utc(next_slots(["0 12 * * *"], "Pacific/Apia", ms("2011-12-29 22:30"), 2)) == [
        *("2011-12-30 10:00", "2011-12-30 22:00"),
    ]


# Late runs


def test_a_slot_missed_while_everything_was_down_is_due_with_its_lateness() -> None:
    due = due_slot(["0 8 * * *"], "UTC", ms("2026-11-01 08:00"), ms("2026-11-02 08:05"))
    assert due == DueSlot(ms("2026-11-02 08:00"), None, 300_000)


def test_several_missed_slots_are_one_that_covers_them() -> None:
    due = due_slot(["* * * * *"], "UTC", ms("2026-11-02 07:59"), ms("2026-11-02 08:05:00.250"))
    assert due == DueSlot(ms("2026-11-02 08:05"), ms("2026-11-02 08:00"), 250)


def test_a_slot_is_due_at_its_moment_and_not_a_millisecond_before() -> None:
    slot = ms("2026-11-02 00:00")
    assert due_slot(["0 8 * * *"], SHANGHAI, slot - DAY, slot - 1) is None
    assert due_slot(["0 8 * * *"], SHANGHAI, slot - DAY, slot) == DueSlot(slot, None, 0)


def test_a_slot_that_was_taken_is_not_due_again() -> None:
    slot = ms("2026-11-02 00:00")
    assert due_slot(["0 8 * * *"], SHANGHAI, slot, slot + HOUR) is None


def test_a_clock_that_went_back_brings_no_slot_back() -> None:
    slot = ms("2026-11-02 00:00")
    assert due_slot(["0 8 * * *"], SHANGHAI, slot, slot - DAY) is None


def test_years_of_missed_minutes_are_found_without_walking_them() -> None:
    now = ms("2026-11-02 08:00:30")
    due = due_slot(["* * * * *"], SHANGHAI, ms("1990-01-01 00:00"), now)
    assert due == DueSlot(now - 30_000, ms("1990-01-01 00:01"), 30_000)


def test_several_expressions_are_one_plan_with_each_moment_once() -> None:
    cron = ["0 8 * * *", "*/30 9-23 * * *", "0 9 * * *"]
    slots = next_slots(cron, "UTC", ms("2026-11-02 07:00"), 4)
    assert utc(slots) == ["2026-11-02 08:00", "2026-11-02 09:00", "2026-11-02 09:30", "2026-11-02 10:00"]
    due = due_slot(cron, "UTC", ms("2026-11-02 07:00"), ms("2026-11-02 09:10"))
    assert due == DueSlot(slots[1], slots[0], 10 * MINUTE)


def test_no_expression_is_never_due() -> None:
    assert next_slots([], "UTC", 0, 5) == []
    assert due_slot([], "UTC", 0, ms("2026-11-02 08:00")) is None


# Words that are no schedule


@pytest.mark.parametrize(
    "bad",
    ["", "* * * *", "60 * * * *", "0 8 * * mo", "daily", "0 8 31 2 *", "*/0 * * * *", "0 0 */31 * 0#2", "9" * 5000],
)
def test_a_bad_expression_is_told_with_the_way_out(bad: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_cron(bad)
    assert caught.value.field == "schedule.cron"
    assert caught.value.hint == "five fields: minute hour day month weekday, e.g. '0 8 * * *'"


def test_an_expression_that_never_comes_due_is_told_as_such() -> None:
    with pytest.raises(UsageError, match="never comes due"):
        check_cron("0 0 */31 * 0#2")


@given(st.text("0123456789*/,-LW# MONJAN", max_size=20))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_no_text_breaks_the_check(text: str) -> None:
    try:
        check_cron(text)
    except UsageError:
        return
    assert next_slots([text], "UTC", 0, 1)


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        ("Asia/Shanghia", "did you mean 'Asia/Shanghai'?"),
        ("../../etc/passwd", "use an IANA name such as Asia/Shanghai"),
        ("", "use an IANA name such as Asia/Shanghai"),
        ("\0", "use an IANA name such as Asia/Shanghai"),
    ],
)
def test_an_unknown_zone_is_told_with_the_way_out(bad: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        zone(bad)
    assert (caught.value.field, caught.value.hint) == ("schedule.timezone", hint)


# Any plan


ZONES = (
    *(NEW_YORK, SHANGHAI, "UTC", "Europe/London", "Australia/Lord_Howe", "America/Havana", "Asia/Beirut"),
    *("America/St_Johns", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"),
)
CHANGES = (
    *("2026-11-01 06:00", "2027-03-14 07:00", "2026-10-25 01:00", "2027-03-28 01:00", "2026-10-03 15:30"),
    *("2027-04-03 15:00", "2026-11-01 05:00", "2026-10-24 21:00", "2027-03-27 22:00", "2011-12-30 10:00"),
)
moments = st.builds(
    lambda change, away: ms(change) + away,
    st.sampled_from(CHANGES),
    st.integers(-3 * DAY, 3 * DAY) | st.integers(-36, 36).map(lambda n: n * 5 * MINUTE),
)
minutes = st.sampled_from(("*", "*/7", "*/30", "0", "30", "0,20,40", "5-9", "59"))
hours = st.sampled_from(("*", "*/2", "0", "1", "2", "3", "23", "1,2", "0-3", "9-17"))
days = st.sampled_from(("* * *", "* * 0", "1,15 * *", "1-7 * 1", "*/2 * *"))
expressions = st.builds("{} {} {}".format, minutes, hours, days)
plans = st.lists(expressions, min_size=1, max_size=3)


@given(plan=plans, name=st.sampled_from(ZONES), after=moments, length=st.integers(-HOUR, 4 * DAY))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_the_due_slot_is_the_last_of_those_that_follow_each_other(
    plan: list[str], name: str, after: int, length: int
) -> None:
    missed: list[int] = []
    last = after
    while (slot := next_slots(plan, name, last, 1)[0]) <= after + length and len(missed) < 100:
        assert slot > last
        missed.append(slot)
        last = slot
    now = last if len(missed) == 100 else after + length
    due = due_slot(plan, name, after, now)
    if not missed:
        assert due is None
        return
    assert due == DueSlot(missed[-1], missed[0] if len(missed) > 1 else None, now - missed[-1])


@given(plan=plans, name=st.sampled_from(ZONES), after=moments, count=st.integers(1, 60))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_slots_asked_for_together_are_those_asked_for_one_by_one(
    plan: list[str], name: str, after: int, count: int
) -> None:
    together, last = next_slots(plan, name, after, count), after
    for slot in together:
        assert next_slots(plan, name, last, 1) == [slot]
        last = slot
    assert len(together) == count


def wall_slots(minutes: set[int], hours: set[int], name: str, day: date) -> set[int]:
    """Fixed times of one day, from the rule itself: a skipped time at the end of the gap, a repeated one once."""
    tz, found = ZoneInfo(name), set()
    for hour in hours:
        for minute in minutes:
            wall = datetime(day.year, day.month, day.day, hour, minute)
            moment = wall.replace(tzinfo=tz).timestamp()
            while datetime.fromtimestamp(moment, tz).replace(tzinfo=None) != wall:
                wall += timedelta(minutes=1)
                moment = wall.replace(tzinfo=tz).timestamp()
            found.add(round(moment * 1000))
    return found


def elapsed_slots(minutes: set[int], hours: set[int], name: str, start: int, end: int) -> set[int]:
    tz, found = ZoneInfo(name), set()
    for at in range(start, end, MINUTE):
        local = datetime.fromtimestamp(at / 1000, tz)
        if local.minute in minutes and local.hour in hours:
            found.add(at)
    return found


@given(
    minute=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hour=st.sets(st.integers(0, 23) | st.integers(0, 3), min_size=1, max_size=3),
    name=st.sampled_from(ZONES),
    change=st.sampled_from(CHANGES),
    wild=st.booleans(),
)
@settings(max_examples=80, derandomize=True, deadline=None)
def test_slots_around_a_clock_change_are_those_of_the_rule(
    minute: set[int], hour: set[int], name: str, change: str, wild: bool
) -> None:
    start, end = ms(change) - DAY, ms(change) + DAY
    text = ",".join(map(str, sorted(minute)))
    if wild:
        expression, expected = f"{text} * * * *", elapsed_slots(minute, set(range(24)), name, start, end)
    else:
        expression = f"{text} {','.join(map(str, sorted(hour)))} * * *"
        first = datetime.fromtimestamp(start / 1000, UTC).date() - timedelta(days=2)
        found = [wall_slots(minute, hour, name, first + timedelta(days=n)) for n in range(8)]
        expected = {slot for slots in found for slot in slots if start <= slot < end}
    slots = next_slots([expression], name, start - 1, 200)
    assert [slot for slot in slots if slot < end] == sorted(expected)
