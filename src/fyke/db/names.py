"""Names that are Fyke's own in a ledger's database: no typed table may take one, and a race for one is no row's
fault."""

from __future__ import annotations

CORE_TABLES = frozenset(
    {
        *(
            "accepted_refusal",
            "alembic_version",
            "dead",
            "event",
            "fill",
            "fill_mark",
            "former_key",
            "hole",
            "item",
            "lane",
        ),
        *(
            "listing",
            "meta",
            "page",
            "pass",
            "refused",
            "relation",
            "revisit",
            "run",
            "shown_before",
            "sighting",
            "source",
            "stretch",
        ),
        *("tally", "task", "task_lane", "task_meta", "task_permit", "task_place", "typed_table", "version", "visit"),
        "worker",
    }
)
# A test holds tables and indexes to a new ledger.
CORE_NAMES = CORE_TABLES | {
    *(
        "dead_item",
        "dead_open",
        "former_key_item",
        "hole_open",
        "item_dead",
        "item_ignored",
        "item_open",
        "item_pending",
    ),
    *(
        "pass_running",
        "refused_page",
        "relation_shared",
        "revisit_at",
        "run_one",
        "run_running",
        "shown_before_item",
        "sighting_loose",
    ),
    *("source_scope", "stretch_listing", "task_delayed", "task_key", "task_lane_render", "task_lane_text"),
    *("task_leased", "task_place_end", "task_ready", "visit_item"),
}
# Unique keys of core tables as MariaDB names them: the key alone, without its table.
CORE_UNIQUE = frozenset(
    {
        *("PRIMARY", "source_name", "listing_source_id_name", "run_source_id_slot", "pass_run_id_listing_id"),
        *("item_scope_key", "version_item_id_n", "dead_open", "run_one", "task_key", "task_lane_name"),
    }
)
# Tables that only servers have.
SERVER_TABLES = frozenset({"id_block"})
