"""Which tests play which of the scenarios that users of such systems suffer from, on each pair of servers.

A name before :: is a file below tests. Where a pair has nothing that the scenario is about, the reason stands instead.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.pairs import PAIRS, REDIS

TESTS: Final = Path(__file__).parents[1]
WANTED: Final = {*range(1, 10), 11, 12, 14, 15, *range(17, 24)}
NO_REDIS: Final = "(nothing of the frontier lives outside the database)"
TOWN, SERVERS, HERE = "scenarios/test_town.py", "scenarios/test_servers.py", "scenarios/test_on_servers.py"
CROWDS, DAMAGE, ROLES = (
    "contract/test_frontier_sql_crowds.py",
    "contract/test_frontier_redis_damage.py",
    "e2e/test_roles.py",
)
CUT, CASES = "hosts/test_cut_off_schedulers.py", "contract/server_cases.py"

# What is played on all pairs.
ALL: Final[dict[int, tuple[str, ...]]] = {
    1: (
        f"{TOWN}::test_three_workers_one_of_which_is_killed_each_two_seconds_write_each_item_once",
        f"{TOWN}::test_a_worker_told_to_stop_hands_over_at_once_and_spends_no_attempt",
    ),
    3: (
        f"{CUT}::test_a_leader_that_is_cut_off_doubles_no_slot_and_misses_none",
        f"{CASES}::test_one_slot_that_two_schedulers_take_at_once_is_one_run",
    ),
    # The plan is made from what the ledger says; its contract holds that on each database.
    4: (
        "scenarios/test_schedule.py::",
        "../src/fyke/testing/ledger_runs.py::"
        "test_no_slot_is_made_up_for_twice_by_schedulers_that_looked_before_each_other",
    ),
    5: (
        f"{HERE}::test_a_page_that_takes_longer_than_the_lease_is_fetched_once",
        f"{TOWN}::test_a_worker_that_was_paused_past_its_lease_wakes_and_changes_nothing",
        f"{HERE}::test_retry_after_holds_the_host_for_all_and_the_task_starts_once_when_it_is_due",
    ),
    6: (
        f"{HERE}::test_an_empty_list_where_there_were_entries_is_suspicious_and_told",
        f"{HERE}::test_a_renamed_title_stores_no_empty_row_and_names_the_field",
        f"{TOWN}::test_a_blocked_worker_is_told_within_130_s_and_replaced_and_all_is_done",
    ),
    7: ("e2e/test_cli_servers.py::test_an_outage_turns_readiness_red_and_liveness_stays_green",),
    9: (
        f"{HERE}::test_producers_of_the_same_ids_make_each_new_once",
        f"{HERE}::test_fifty_producers_of_the_same_thousand_ids_make_each_new_once",
    ),
    12: (
        f"{HERE}::test_four_processes_worth_of_workers_share_the_budget",
        f"{TOWN}::test_four_workers_keep_a_slow_site_s_gap_and_let_no_other_site_wait",
    ),
    14: (
        f"{HERE}::test_a_page_gone_three_times_is_dead_and_replayed_it_is_stored",
        f"{HERE}::test_an_orphan_is_reported_mended_and_then_a_row",
    ),
    15: (f"{TOWN}::test_an_idle_worker_says_nothing_and_starts_the_first_task_within_a_second",),
    17: (
        f"{HERE}::test_a_row_that_the_database_refuses_takes_no_neighbour_with_it",
        f"{HERE}::test_what_was_in_hand_and_in_the_buffer_at_a_kill_ends_as_rows",
    ),
    18: (f"{HERE}::test_the_second_run_reads_the_list_and_fetches_only_what_is_new_or_changed",),
    19: ("(proxies are not built yet)",),
    20: (f"{HERE}::test_eight_writers_of_two_thousand_shared_keys_write_each_once",),
    21: (f"{TOWN}::test_of_a_hundred_and_two_one_always_fails_one_kills_its_worker_and_the_rest_are_rows",),
    22: ("unit/test_cadence.py::",),
}
# What is played on Redis, and on the sql frontier of both databases.
APART: Final[dict[int, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    2: (
        (f"{SERVERS}::test_two_tasks_of_a_reply_that_never_arrived_are_done_after_their_lease",),
        (f"{CROWDS}::test_of_ten_processes_one_gets_the_orphaned_task_each_of_a_hundred_times",),
    ),
    7: (
        (
            f"{SERVERS}::test_all_workers_go_on_within_10_s_after_redis_was_gone",
            f"{SERVERS}::test_a_long_outage_of_redis_stops_nobody_and_no_slot_is_missed",
        ),
        (
            "hosts/test_cut_off.py::test_a_worker_that_is_cut_off_loses_nothing_and_works_again",
            f"{CROWDS}::test_nobody_reaps_for_one_lease_after_the_database_was_away",
        ),
    ),
    8: (
        (
            f"{ROLES}::test_outages_of_both_servers_and_a_wipe_end_no_process_and_lose_nothing",
            f"{DAMAGE}::test_finished_tasks_do_not_come_back_when_the_group_is_set_back",
        ),
        (NO_REDIS,),
    ),
    11: (
        (f"{DAMAGE}::test_a_trimmed_stream_is_restored_and_no_task_in_hand_is_lost",),
        (f"{CROWDS}::test_all_that_is_offered_is_acknowledged_once_whatever_offerers_workers_and_reapers_do",),
    ),
    23: ((f"{SERVERS}::test_redis_killed_three_times_while_5000_are_enqueued_loses_nothing",), (NO_REDIS,)),
}


def played(scenario: int, pair: str) -> tuple[str, ...]:
    on_redis, on_sql = APART.get(scenario, ((), ()))
    return ALL.get(scenario, ()) + (on_redis if pair == REDIS else on_sql)


@pytest.mark.parametrize("pair", PAIRS)
def test_each_scenario_is_played_on_each_pair_or_says_why_not(pair: str) -> None:
    assert [number for number in sorted(WANTED) if not played(number, pair)] == []


def test_each_test_of_the_table_is_there() -> None:
    named = {test for number in WANTED for pair in PAIRS for test in played(number, pair) if not test.startswith("(")}
    missing = []
    for test in sorted(named):
        file, _, name = test.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        if name not in found and (name or not any(each.startswith("test_") for each in found)):
            missing.append(test)
    assert missing == []
