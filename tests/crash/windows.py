"""Each crash window (the rows of `docs/explanation/failures.md`), with what hits it on Redis and PostgreSQL.

Either a mark by which a case of the enumeration is known, in the record of its calls, and one such case; or tests of
its own; or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from tests.crash.calls import Fault, Step
from tests.crash.scenario import Case

Trace: TypeAlias = Sequence[Step]
Mark: TypeAlias = Callable[[Trace], bool]
F: TypeAlias = Fault
LIST, DETAIL = "/list/", "/detail/"


class Enumerated(Struct, frozen=True):
    mark: Mark
    example: Case


class Own(Struct, frozen=True):
    tests: tuple[str, ...]


class NoTest(Struct, frozen=True):
    why: str


def steps(trace: Trace, name: str, *faults: Fault, what: str = "", how: str = "") -> Iterator[int]:
    """The places of calls of that name: with one of these faults, about that, ended so."""
    for place, step in enumerate(trace):
        if (
            step.name == name
            and (not faults or step.fault in faults)
            and what in step.what
            and (not how or step.how == how)
        ):
            yield place


def hit(name: str, *faults: Fault, what: str = "", after: str = "", again: str = "") -> Mark:
    """A call met one of these faults.

    `after`: another call of the same process had been done before it. `again`: that call is done later, by whomever.
    """

    def mark(trace: Trace) -> bool:
        for place in steps(trace, name, *faults, what=what):
            was = not after or any(steps(before(trace, place), after, how="done"))
            if was and (not again or any(steps(trace[place + 1 :], again, what=what, how="done"))):
                return True
        return False

    return mark


def overtaken(name: str, *, what: str = "") -> Mark:
    """A process stood still before a call; another one had made it when the first one woke."""

    def mark(trace: Trace) -> bool:
        for place in steps(trace, name, F.STOP_BEFORE, what=what):
            mine, later = trace[place].process, trace[place + 1 :]
            others = [at for at in steps(later, name, what=what, how="done") if later[at].process != mine]
            if others and any(step.process == mine for step in later[others[0] :]):
                return True
        return False

    return mark


def then(trace: Trace, *calls: tuple[str, str]) -> bool:
    """Whether these calls (name, about what) were done one after the other."""
    rest = trace
    for name, what in calls:
        found = next(steps(rest, name, what=what, how="done"), None)
        if found is None:
            return False
        rest = rest[found + 1 :]
    return True


def before(trace: Trace, place: int) -> Trace:
    """What the process of a step had asked for until then."""
    return [step for step in trace[:place] if step.process == trace[place].process]


def page_lost(trace: Trace) -> bool:
    """A list page was fetched and not written; it was asked for again, and then written."""
    for place in steps(trace, "ledger.page", F.DIE_BEFORE, F.NO_EFFECT):
        mine = before(trace, place)
        *_, fetched = steps(mine, "fetcher.fetch", what=LIST, how="done")
        url, written = mine[fetched].what, any(steps(mine[fetched:], "ledger.page", how="done"))
        if not written and then(trace[place:], ("fetcher.fetch", url), ("ledger.page", "")):
            return True
    return False


def offered_by_the_reconciler(trace: Trace) -> bool:
    """A page was written, its items were not offered; what was due was asked for, and offered."""
    for place in steps(trace, "frontier.offer", F.DIE_BEFORE, F.NO_EFFECT, what="i"):
        mine = before(trace, place)
        *_, written = steps(mine, "ledger.page", how="done")
        offered = any(steps(mine[written:], "frontier.offer", what="i", how="done"))
        if not offered and then(trace[place:], ("ledger.due", ""), ("frontier.offer", "i")):
            return True
    return False


def filled_again(trace: Trace) -> bool:
    """Everything was lost; the frontier was made again, what was due was offered, and it was told."""
    filling = (("frontier.rebuild", ""), ("ledger.due", ""), ("frontier.offer", "i"), ("ledger.add_events", ""))
    return any(step.fault is F.WIPED and then(trace[place:], *filling) for place, step in enumerate(trace))


def noticed(trace: Trace) -> bool:
    """The last writes were lost; it was noticed, and told."""
    telling = (("frontier.damaged", ""), ("ledger.add_events", ""))
    return any(step.fault is F.GONE_BACK and then(trace[place:], *telling) for place, step in enumerate(trace))


def own(*tests: str) -> Own:
    return Own(tests)


WINDOWS: Final[dict[int, Enumerated | Own | NoTest]] = {
    1: Enumerated(page_lost, Case(("ledger.page", 2), F.DIE_BEFORE)),
    2: Enumerated(
        hit("ledger.page", F.LOST_REPLY, F.DIE_AFTER, again="ledger.page"), Case(("ledger.page", 1), F.LOST_REPLY)
    ),
    3: Enumerated(offered_by_the_reconciler, Case(("frontier.offer", 2), F.DIE_BEFORE)),
    4: Enumerated(
        hit("frontier.offer", F.TWICE, F.LOST_REPLY, what="i", again="frontier.offer"),
        Case(("frontier.offer", 2), F.LOST_REPLY),
    ),
    5: own("test_an_item_offered_again_after_its_end_is_acknowledged_without_a_fetch"),
    6: own("test_an_offer_that_fails_half_way_is_made_good"),
    7: Enumerated(
        hit("frontier.lease", F.DIE_AFTER, F.LOST_REPLY, again="frontier.reap"),
        Case(("frontier.lease", 2), F.DIE_AFTER),
    ),
    8: Enumerated(
        hit("fetcher.fetch", F.DIE_BEFORE, F.DIE_AFTER, what=DETAIL, after="frontier.begin", again="fetcher.fetch"),
        Case(("fetcher.fetch", 3), F.DIE_BEFORE),
    ),
    9: Enumerated(overtaken("ledger.commit"), Case(("ledger.commit", 1), F.STOP_BEFORE)),
    10: Enumerated(hit("ledger.commit", F.LOST_REPLY, again="ledger.commit"), Case(("ledger.commit", 2), F.LOST_REPLY)),
    11: Enumerated(
        hit("frontier.ack", F.DIE_BEFORE, what="i", after="ledger.commit", again="frontier.ack"),
        Case(("frontier.ack", 1), F.DIE_BEFORE),
    ),
    12: Enumerated(
        hit("frontier.ack", F.LOST_REPLY, what="i", again="frontier.ack"), Case(("frontier.ack", 1), F.LOST_REPLY)
    ),
    13: Enumerated(
        hit("frontier.retry", F.LOST_REPLY, what="i", again="frontier.retry"),
        Case(("frontier.retry", 2), F.LOST_REPLY),
    ),
    14: own("test_a_retry_that_fails_half_way_is_made_good"),
    15: own("test_delayed_tasks_are_ready_again_whoever_died_while_it_made_them_so"),
    16: Enumerated(
        hit("frontier.bury", F.DIE_BEFORE, what="i", after="ledger.commit", again="frontier.ack"),
        Case(("frontier.bury", 1), F.DIE_BEFORE),
    ),
    17: own(
        "test_a_server_that_is_killed_comes_back_with_what_it_had",
        "test_redis_killed_three_times_while_enqueueing_loses_nothing",
    ),
    18: Enumerated(noticed, Case(("frontier.ack", 2), F.GONE_BACK)),
    19: Enumerated(filled_again, Case(("frontier.lease", 4), F.WIPED)),
    20: Enumerated(
        hit("frontier.ack", F.STREAM_DELETED, F.STREAM_TRIMMED, after="frontier.begin", again="frontier.ack"),
        Case(("frontier.ack", 1), F.STREAM_DELETED),
    ),
    21: own("test_a_full_memory_refuses_offers_whole_and_lets_everything_else_pass"),
    22: own("test_workers_park_while_the_database_is_away_and_go_on_within_seconds_of_its_return"),
    23: NoTest("a limit: a ledger restored to an older state"),
    24: NoTest("a limit: two masters of one Redis after a partition"),
    25: Enumerated(overtaken("frontier.offer", what="i"), Case(("frontier.offer", 2), F.STOP_BEFORE)),
    26: Enumerated(
        hit("frontier.offer", F.DIE_BEFORE, what="p", after="ledger.open_run", again="frontier.offer"),
        Case(("frontier.offer", 1), F.DIE_BEFORE),
    ),
    27: own(
        "test_a_scheduler_paused_past_its_turn_takes_no_slot_twice",
        "test_four_schedulers_take_each_slot_once_though_one_is_paused_and_one_dies",
    ),
    28: own(
        "test_a_row_that_moves_to_a_page_already_read_is_not_missed",
        "test_rows_that_come_while_a_list_is_read_are_taken_in_the_same_walk",
    ),
    29: own("test_a_worker_told_to_stop_gives_back_what_it_cannot_finish"),
    30: own(
        "test_an_older_generation_changes_nothing_after_a_newer_one_was_stored",
        "test_an_older_generation_does_not_close_an_item_that_is_due_at_a_newer_one",
        "test_an_older_end_does_not_bury_an_item_that_was_replayed",
    ),
    31: Enumerated(overtaken("ledger.page"), Case(("ledger.page", 2), F.STOP_BEFORE)),
    32: Enumerated(
        hit("ledger.end_pass", F.DIE_BEFORE, after="ledger.page", again="ledger.end_pass"),
        Case(("ledger.end_pass", 1), F.DIE_BEFORE),
    ),
    33: own("test_validators_are_sent_only_after_a_walk_that_kept_its_entries"),
    34: own(
        "test_a_blank_page_in_the_middle_is_read_again",
        "test_a_blank_page_in_the_middle_that_stays_blank_is_no_complete_walk",
    ),
    35: own("test_a_walk_resumed_on_a_list_whose_pages_have_shifted_begins_at_page_one"),
    36: own("test_workers_whose_supervisor_was_killed_give_back_and_end"),
    37: own("test_nobody_reaps_what_living_holders_could_not_renew"),
    38: own(
        "test_a_hold_outlives_a_frontier_that_was_wiped",
        "test_lanes_that_were_lost_are_set_before_a_task_can_be_leased",
    ),
    39: own("test_an_item_is_visited_again_from_its_first_hop"),
    40: NoTest("comes with the archive"),
    41: own(
        "test_wherever_it_dies_never_two_are_open_and_it_can_be_ended",
        "test_a_write_that_has_found_the_ledger_open_ends_before_it_is_closed",
    ),
    42: NoTest("comes with sinks"),
    43: own("test_a_rule_that_would_make_known_items_new_is_refused"),
    44: own(
        "test_a_clock_that_was_an_hour_fast_takes_no_slot_twice_and_leaves_no_long_lease",
        "test_a_clock_that_is_set_while_working_breaks_no_promise",
    ),
}
