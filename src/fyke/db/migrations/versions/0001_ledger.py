"""The ledger's tables as the first release has them. Frozen: a later change is a later step."""

from fyke.db.migrations.making import blob, index, make, on_mysql, only_where, text, unique, whole

revision = "0001"
down_revision: str | None = None


def sources() -> None:
    make("meta", text("name", key=True), text("value"))
    make(
        "source",
        whole("id", key=True),
        text("name"),
        text("title"),
        text("text"),
        text("hash"),
        text("scope"),
        text("table_name"),
        text("identity"),
        text("columns"),
        whole("has_detail"),
        text("lanes"),
        text("pool"),
        whole("priority"),
        whole("applied_at"),
        whole("changed_at"),
        whole("paused_at", nullable=True),
        text("paused_reason", default="''"),
        whole("paused_total", default="0"),
        whole("removed_at", nullable=True),
        whole("blocks", default="0"),
        unique("source", "name"),
    )
    index("source_scope", "source", ["scope"])
    make("typed_table", text("name", key=True), text("columns"), whole("made_at"), whole("changed_at"))
    make(
        "listing",
        whole("id", key=True),
        whole("source_id"),
        text("name"),
        text("inputs"),
        whole("usual_rows", default="0"),
        text("etag", default="''"),
        text("last_modified", default="''"),
        text("read_hash", default="''"),
        whole("created_at"),
        unique("listing", "source_id", "name"),
    )
    make(
        "accepted_refusal",
        whole("source_id", key=True),
        blob("fingerprint", key=True),
        text("reason"),
        whole("at"),
        rowid=False,
    )


def walks() -> None:
    make(
        "run",
        whole("id", key=True),
        whole("source_id"),
        whole("slot"),
        whole("covers_from", nullable=True),
        text("started_by"),
        text("state"),
        text("reason", default="''"),
        whole("started_at"),
        whole("ended_at", nullable=True),
        whole("limit_ms"),
        whole("deadline"),
        whole("accepted_at", nullable=True),
        text("accepted_reason", default="''"),
        *only_where("running_source", "state = 'running'", "source_id"),
        unique("run", "source_id", "slot"),
    )
    index("run_running", "run", ["deadline"], where="state = 'running'", mysql=["state", "deadline"])
    index("run_one", "run", ["source_id"], where="state = 'running'", unique=True, mysql=["running_source"])
    make(
        "pass",
        whole("id", key=True),
        whole("run_id", nullable=True),
        whole("source_id"),
        whole("listing_id"),
        text("state"),
        text("reason", default="''"),
        text("note", default="''"),
        whole("fence", default="0"),
        text("worker", default="''"),
        text("lane"),
        whole("opened_at"),
        whole("due_at"),
        whole("started_at", nullable=True),
        text("read_hash", default="''"),
        whole("ended_at", nullable=True),
        blob("checkpoint", nullable=True),
        whole("checkpoint_at", default="0"),
        whole("pages", default="0"),
        whole("entries", default="0"),
        whole("new", default="0"),
        whole("known", default="0"),
        whole("refused", default="0"),
        whole("attempts", default="0"),
        whole("soft_failures", default="0"),
        text("failure", nullable=True),
        whole("connected", default="0"),
        whole("first_page_rows", default="0"),
        text("newest_key", nullable=True),
        whole("newest_at", nullable=True),
        text("oldest_key", nullable=True),
        whole("oldest_at", nullable=True),
        whole("stretch_id", nullable=True),
        unique("pass", "run_id", "listing_id"),
    )
    index("pass_running", "pass", ["id"], where="state = 'running'", mysql=["state"])


def coverage() -> None:
    make(
        "stretch",
        whole("id", key=True),
        whole("listing_id"),
        whole("pass_id"),
        text("newest_key", nullable=True),
        whole("newest_at", nullable=True),
        text("oldest_key", nullable=True),
        whole("oldest_at", nullable=True),
        whole("made_at"),
        whole("joined_at"),
    )
    index("stretch_listing", "stretch", ["listing_id"])
    make(
        "hole",
        whole("id", key=True),
        whole("listing_id"),
        whole("pass_id"),
        whole("newer_stretch_id"),
        whole("older_stretch_id", nullable=True),
        text("newer_key", nullable=True),
        whole("newer_at", nullable=True),
        text("older_key", nullable=True),
        whole("older_at", nullable=True),
        whole("found_at"),
        text("reason", default="''"),
        whole("closed_at", nullable=True),
        text("closed_reason", default="''"),
    )
    index("hole_open", "hole", ["listing_id"], where="closed_at IS NULL")
    make(
        "page",
        whole("pass_id", key=True),
        whole("seq", key=True),
        whole("number"),
        whole("look"),
        text("url"),
        whole("entries"),
        whole("new"),
        whole("known"),
        whole("refused"),
        whole("changed"),
        whole("read_at"),
        whole("at"),
        rowid=False,
    )


def items() -> None:
    make(
        "item",
        whole("id", key=True),
        whole("source_id"),
        text("scope"),
        text("key"),
        text("url"),
        text("lane"),
        text("pool"),
        whole("priority"),
        blob("entry_hash"),
        whole("entry_at"),
        whole("published_at", nullable=True),
        text("state"),
        text("outcome", default="''"),
        text("reason", default="''"),
        whole("generation", default="1"),
        whole("pending", default="1"),
        whole("opened_at"),
        whole("due_at"),
        whole("closed_at", nullable=True),
        whole("first_started_at", nullable=True),
        whole("attempts", default="0"),
        whole("soft_failures", default="0"),
        whole("soft_ms", default="0"),
        whole("paused_base", default="0"),
        whole("reopened", default="0"),
        whole("reopened_at", nullable=True),
        whole("head_n", default="0"),
        blob("head_hash", nullable=True),
        text("entry"),
        unique("item", "scope", "key"),
        once=True,
    )
    index("item_dead", "item", ["source_id"], where="state = 'dead'", mysql=[])
    index("item_ignored", "item", ["source_id"], where="state = 'ignored'", mysql=[])
    index("item_open", "item", ["source_id"], where="state = 'open'", mysql=["state", "source_id"])
    index("item_pending", "item", ["id", "source_id", "due_at"], where="pending = 1", mysql=["pending"])


def sightings() -> None:
    make(
        "sighting",
        whole("listing_id", key=True),
        text("key", key=True),
        whole("item_id"),
        whole("first_pass"),
        whole("last_pass"),
        whole("page"),
        whole("position"),
        text("url"),
        whole("first_at"),
        whole("last_at"),
        whole("stretch_id", nullable=True),
        rowid=False,
    )
    index("sighting_loose", "sighting", ["last_pass"], where="stretch_id IS NULL")
    make("shown_before", whole("pass_id", key=True), text("key", key=True), whole("item_id"), rowid=False)
    index("shown_before_item", "shown_before", ["item_id"])
    make(
        "refused",
        whole("id", key=True),
        whole("pass_id"),
        whole("seq"),
        whole("position"),
        text("reason"),
        text("raw"),
        blob("fingerprint"),
        whole("at"),
    )
    index("refused_page", "refused", ["pass_id", "seq"])


def records() -> None:
    make(
        "visit",
        whole("id", key=True),
        whole("item_id"),
        whole("generation"),
        text("outcome"),
        text("final", nullable=True),
        text("reason", default="''"),
        text("worker"),
        whole("started_at"),
        whole("ended_at"),
        whole("starts"),
        whole("costs"),
        whole("delay_ms"),
        text("evidence"),
    )
    index("visit_item", "visit", ["item_id", "generation", "started_at"])
    make(
        "version",
        whole("id", key=True),
        whole("item_id"),
        whole("n"),
        whole("at"),
        blob("hash"),
        whole("visit_id", nullable=True),
        whole("pos", nullable=True),
        text("content"),
        unique("version", "item_id", "n"),
    )
    day = (whole("source_id", key=True), whole("day", key=True), text("field", key=True))
    make("fill", *day, whole("filled"), whole("total"), rowid=False)
    make(
        "fill_mark",
        whole("source_id", key=True),
        text("field", key=True),
        *(whole(name) for name in ("base_filled", "base_total", "filled", "total")),
        whole("fallen", default="0"),
        rowid=False,
    )


def letters() -> None:
    make(
        "dead",
        whole("id", key=True),
        whole("item_id"),
        whole("source_id"),
        text("scope"),
        text("key"),
        text("url"),
        text("outcome"),
        text("reason"),
        whole("generation"),
        whole("attempts"),
        text("worker"),
        whole("first_at"),
        whole("died_at"),
        text("entry"),
        text("evidence"),
        whole("closed_at", nullable=True),
        text("closed_reason", default="''"),
        *only_where("open_item", "closed_at IS NULL", "item_id"),
    )
    index("dead_item", "dead", ["item_id"])
    index("dead_open", "dead", ["item_id"], where="closed_at IS NULL", unique=True, mysql=["open_item"])


def state() -> None:
    make(
        "lane",
        text("lane", key=True),
        whole("hold_until", default="0"),
        text("hold_reason", default="''"),
        whole("blocks", default="0"),
        text("robots_text", nullable=True),
        whole("robots_status", nullable=True),
        whole("robots_at", nullable=True),
    )
    make(
        "worker",
        text("worker", key=True),
        text("host"),
        whole("pid"),
        text("version"),
        text("pool"),
        whole("started_at"),
        whole("beat_at"),
        whole("in_hand"),
        whole("done"),
        whole("failed"),
        whole("memory"),
        text("stage"),
    )
    make(
        "tally",
        whole("source_id", key=True),
        *(whole(name, default="0") for name in ("entries", "new", "known", "refused")),
        *(whole(name, default="0") for name in ("listed", "open", "stored", "dead", "ignored", "versions")),
    )
    make(
        "event",
        whole("id", key=True),
        text("kind"),
        text("message"),
        text("source"),
        text("grp"),
        whole("at"),
        text("data"),
        once=True,
    )
    if on_mysql():
        # MariaDB gives the same number again after a roll-back and a restart: blocks of ids are taken from here.
        make("id_block", text("name", key=True), whole("next"))


def upgrade() -> None:
    sources()
    walks()
    coverage()
    items()
    sightings()
    records()
    letters()
    state()
