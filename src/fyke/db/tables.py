"""The core tables of the ledger, defined once for all databases (SQLAlchemy Core).

Statements are written by hand: only what moves a ledger, and tests, import this module. Times are ms since the epoch;
what is an id of another table ends in `_id`; hashes are bytes. One MetaData holds all core tables.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, UniqueConstraint

from fyke.db import defining
from fyke.db.defining import maybe_octets as _maybe_bytes
from fyke.db.defining import maybe_whole as _at
from fyke.db.defining import maybe_words as _words
from fyke.db.defining import octets as _bytes
from fyke.db.defining import row_id as _id
from fyke.db.defining import table, where
from fyke.db.defining import whole as _int
from fyke.db.defining import words as _text
from fyke.db.kinds import text_kind

METADATA = defining.METADATA

META = table("meta", _text("name", key=True), _text("value"))

SOURCE = table(
    "source",
    _id(),
    Column("name", text_kind("name"), nullable=False, unique=True),
    *(_text(name) for name in ("title", "text", "hash", "scope", "table_name", "identity")),
    _text("columns"),  # JSON: model.Column
    _int("has_detail"),
    _text("lanes"),  # JSON: model.LanePolicy
    _text("pool"),
    _int("priority"),
    _int("applied_at"),
    _int("changed_at"),
    _at("paused_at"),
    _text("paused_reason", default=True),
    _int("paused_total", 0),
    _at("removed_at"),
    _int("blocks", 0),
)
Index("source_scope", SOURCE.c.scope)

# columns: JSON [[name, type], …] in the table's order
TYPED_TABLE = table("typed_table", _text("name", key=True), _text("columns"), _int("made_at"), _int("changed_at"))

LISTING = table(
    "listing",
    _id(),
    _int("source_id"),
    _text("name"),
    _text("inputs"),  # JSON: Listing.values
    _int("usual_rows", 0),
    _text("etag", default=True),
    _text("last_modified", default=True),
    _text("read_hash", default=True),  # of the source, when the page was read that the validators stand for
    _int("created_at"),
    UniqueConstraint("source_id", "name"),
)

RUN = table(
    "run",
    _id(),
    _int("source_id"),
    _int("slot"),
    _at("covers_from"),
    _text("started_by"),  # cron, hand, fill
    _text("state"),
    _text("reason", default=True),
    _int("started_at"),
    _at("ended_at"),
    _int("limit_ms"),
    _int("deadline"),
    _at("accepted_at"),
    _text("accepted_reason", default=True),
    UniqueConstraint("source_id", "slot"),
)
where("run_running", RUN, ("deadline",), "state = 'running'")
# One by calendar or by hand, which the ledger sees to, and one that fills beside it.
where("run_one", RUN, ("source_id", "started_by"), "state = 'running'", unique=True)

# run_id is NULL for what was submitted by hand: such a pass is complete from the beginning.
PASS = table(
    "pass",
    _id(),
    _at("run_id"),
    _int("source_id"),
    _int("listing_id"),
    _text("state"),
    _text("reason", default=True),
    _text("note", default=True),
    _int("fence", 0),
    _text("worker", default=True),
    _text("lane"),
    _int("opened_at"),
    _int("due_at"),
    _at("started_at"),
    _text("read_hash", default=True),  # of the source at the last lease; empty: its pages are to be read once more
    _at("ended_at"),
    _maybe_bytes("checkpoint"),
    _int("checkpoint_at", 0),
    _int("pages", 0),  # pages read, also those read again; the last seq given
    *(_int(name, 0) for name in ("entries", "new", "known", "refused")),
    _int("attempts", 0),
    _int("soft_failures", 0),
    _words("failure"),  # JSON of the last failed attempt: outcome, reason, at, evidence
    _int("connected", 0),
    _int("first_page_rows", 0),
    _words("newest_key"),
    _at("newest_at"),
    _words("oldest_key"),
    _at("oldest_at"),
    _at("stretch_id"),
    UniqueConstraint("run_id", "listing_id"),
)
where("pass_running", PASS, ("id",), "state = 'running'")

STRETCH = table(
    "stretch",
    _id(),  # of one listing: the higher, the newer
    _int("listing_id"),
    _int("pass_id"),
    _words("newest_key"),
    _at("newest_at"),
    _words("oldest_key"),
    _at("oldest_at"),
    _int("made_at"),
    _int("joined_at"),
)
Index("stretch_listing", STRETCH.c.listing_id)

HOLE = table(
    "hole",
    _id(),
    _int("listing_id"),
    _int("pass_id"),
    _int("newer_stretch_id"),
    _at("older_stretch_id"),  # NULL: below the first stretch, down to where the walk should have started
    _words("newer_key"),
    _at("newer_at"),
    _words("older_key"),
    _at("older_at"),
    _int("found_at"),
    _text("reason", default=True),
    _at("closed_at"),
    _text("closed_reason", default=True),
)
where("hole_open", HOLE, ("listing_id",), "closed_at IS NULL")

PAGE = table(
    "page",
    _int("pass_id", key=True),
    _int("seq", key=True),
    _int("number"),
    _int("look"),
    _text("url"),
    *(_int(name) for name in ("entries", "new", "known", "refused", "changed")),
    _int("read_at"),
    _int("at"),
    rowid=False,
)

ITEM = table(
    "item",
    _id(),
    _int("source_id"),
    _text("scope"),
    _text("key"),
    _text("url"),
    _text("lane"),
    _text("pool"),
    _int("priority"),
    _bytes("entry_hash"),
    _int("entry_at"),
    _at("published_at"),
    _text("state"),
    _text("outcome", default=True),  # of a dead or ignored item
    _text("reason", default=True),
    _int("generation", 1),
    _int("pending", 1),
    _int("opened_at"),
    _int("due_at"),
    _at("closed_at"),
    _at("first_started_at"),  # of this generation, as the next four
    _int("attempts", 0),
    _int("soft_failures", 0),
    _int("soft_ms", 0),
    _int("paused_base", 0),  # source.paused_total at first_started_at
    _int("reopened", 0),
    _at("reopened_at"),
    _int("head_n", 0),
    _maybe_bytes("head_hash"),
    _text("entry"),  # JSON; last, for it may be long
    UniqueConstraint("scope", "key"),
    once=True,
)
where("item_pending", ITEM, ("id", "source_id", "due_at"), "pending = 1")
where("item_open", ITEM, ("source_id",), "state = 'open'")
where("item_dead", ITEM, ("source_id",), "state = 'dead'")
where("item_ignored", ITEM, ("source_id",), "state = 'ignored'")

# Keys under which an item was known before `fyke source rekey`.
FORMER_KEY = table(
    "former_key",
    *(_text("scope", key=True), _text("key", key=True), _int("item_id", key=True), _int("at")),
    rowid=False,
)
Index("former_key_item", FORMER_KEY.c.item_id)

SIGHTING = table(
    "sighting",
    _int("listing_id", key=True),
    _text("key", key=True),
    _int("item_id"),
    _int("first_pass"),
    _int("last_pass"),
    _int("page"),
    _int("position"),
    _text("url"),
    _int("first_at"),
    _int("last_at"),
    _at("stretch_id"),  # NULL until a pass that covers has shown it
    rowid=False,
)
where("sighting_loose", SIGHTING, ("last_pass",), "stretch_id IS NULL")

# What a suspicious pass has shown, where a later pass has shown it, too: `last_pass` names only one of them.
SHOWN_BEFORE = table(
    "shown_before",
    *(_int("pass_id", key=True), _text("key", key=True), _int("item_id")),
    rowid=False,
)
Index("shown_before_item", SHOWN_BEFORE.c.item_id)

REFUSED = table(
    "refused",
    _id(),
    _int("pass_id"),
    _int("seq"),
    _int("position"),
    _text("reason"),
    _text("raw"),
    _bytes("fingerprint"),
    _int("at"),
)
Index("refused_page", REFUSED.c.pass_id, REFUSED.c.seq)

ACCEPTED_REFUSAL = table(
    "accepted_refusal",
    *(_int("source_id", key=True), _bytes("fingerprint", key=True), _text("reason"), _int("at")),
    rowid=False,
)

VISIT = table(
    "visit",
    _id(),
    _int("item_id"),
    _int("generation"),
    _text("outcome"),
    _words("final"),  # NULL: a failed attempt, the item stayed due
    _text("reason", default=True),
    _text("worker"),
    _int("started_at"),
    _int("ended_at"),
    _int("starts"),
    _int("costs"),
    _int("delay_ms"),
    _text("evidence"),  # JSON
)
Index("visit_item", VISIT.c.item_id, VISIT.c.generation, VISIT.c.started_at)

VERSION = table(
    "version",
    _id(),
    _int("item_id"),
    _int("n"),
    _int("at"),
    _bytes("hash"),
    _at("visit_id"),  # NULL: written by a list page
    _at("pos"),  # given after commit, in order: what sinks read by
    _text("content"),  # JSON
    UniqueConstraint("item_id", "n"),
)

# When an item is visited again by its source's calendar; a row for each that is.
REVISIT = table("revisit", _int("item_id", key=True), _int("at"))
Index("revisit_at", REVISIT.c.at)

# What relates items of one scope: they share the text of a field. `kind` is what this item is to those without one
# ("corrects"), or empty.
RELATION = table(
    "relation",
    *(_int("item_id", key=True), _int("n", key=True), _text("kind"), _text("field"), _text("shared")),
    rowid=False,
)
Index("relation_shared", RELATION.c.shared)

DEAD = table(
    "dead",
    _id(),
    _int("item_id"),
    _int("source_id"),
    *(_text(name) for name in ("scope", "key", "url", "outcome", "reason")),
    _int("generation"),
    _int("attempts"),
    _text("worker"),
    _int("first_at"),
    _int("died_at"),
    _text("entry"),
    _text("evidence"),
    _at("closed_at"),
    _text("closed_reason", default=True),
)
Index("dead_item", DEAD.c.item_id)
where("dead_open", DEAD, ("item_id",), "closed_at IS NULL", unique=True)

LANE = table(
    "lane",
    _text("lane", key=True),
    _int("hold_until", 0),
    _text("hold_reason", default=True),
    _int("blocks", 0),
    _words("robots_text"),
    _at("robots_status"),
    _at("robots_at"),
)

WORKER = table(
    "worker",
    _text("worker", key=True),
    _text("host"),
    _int("pid"),
    _text("version"),
    _text("pool"),
    _int("started_at"),
    _int("beat_at"),
    *(_int(name) for name in ("in_hand", "done", "failed", "memory")),
    _text("stage"),  # JSON
)

# Counts of a source's own items and pages, written last in each transaction; the audit counts them again.
TALLY = table(
    "tally",
    _int("source_id", key=True),
    *(_int(name, 0) for name in ("entries", "new", "known", "refused")),
    *(_int(name, 0) for name in ("listed", "open", "stored", "dead", "ignored", "versions")),
)

EVENT = table(
    "event",
    _id(),
    _text("kind"),
    _text("message"),
    _text("source"),
    _text("grp"),
    _int("at"),
    _text("data"),  # JSON
    once=True,
)

FILL = table(
    "fill",
    _int("source_id", key=True),
    _int("day", key=True),  # days since the epoch, UTC
    _text("field", key=True),
    *(_int(name) for name in ("filled", "total")),
    rowid=False,
)

# What the rate of a field is measured against: values before the window, and those since.
FILL_MARK = table(
    "fill_mark",
    _int("source_id", key=True),
    _text("field", key=True),
    *(_int(name) for name in ("base_filled", "base_total", "filled", "total")),
    _int("fallen", 0),
    rowid=False,
)
