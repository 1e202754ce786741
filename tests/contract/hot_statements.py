"""The ledger's hot statements, whose plans are tests on each database: none walks a big table."""

from fyke.ledgers.sql import commits, coverage, deaths, due, entries, pages, runs

BIG = ("item", "sighting", "version", "visit", "page", "refused")
HOT = {
    "page: guard": pages.GUARD,
    "page: known": entries.KNOWN,
    "page: held": entries.HELD,
    "page: held alone": entries.HELD_ALONE,
    "page: refresh": entries.REFRESH,
    "page: renew": entries.RENEW,
    "page: reopen": entries.REOPEN,
    "page: store": entries.STORE,
    "page: shown last": coverage.SHOWN_LAST,
    "page: suspicious": coverage.SUSPICIOUS,
    "page: shown before": coverage.KEEP_SHOWN,
    "page: sighting": pages.SIGHTING,
    "page: count": pages.COUNT,
    "death: items": deaths.ITEMS,
    "death: open letters": deaths.OPEN,
    "death: letter": deaths.LETTER,
    "death: close": deaths.CLOSE,
    "commit: items": commits.ITEMS,
    "commit: stored": commits.STORED,
    "commit: closed": commits.CLOSED,
    "commit: attempted": commits.ATTEMPTED,
    "commit: told before": commits.TOLD_BEFORE,
    "still due": due.STILL_DUE,
    "due items": due.DUE_ITEMS,
    "due passes": due.DUE_PASSES,
    "wanted items": due.WANTED_ITEMS,
    "wanted passes": due.WANTED_PASSES,
    "recognise: known": runs.KNOWN,
    "recognise: anchors": runs.ANCHORS,
    "covered": coverage.COVERED,
    "covered before": coverage.COVERED_BEFORE,
    "forget shown": coverage.FORGET_SHOWN,
    "anchors": coverage.ANCHORS,
}
# A walk along an index that holds only what is pending or running, in order: LIMIT ends it.
BY_PARTIAL_INDEX = {"due items": "item_pending", "due passes": "pass_running"}
# Changes that are made once in a transaction; the others are made for many rows at a time.
ONCE = frozenset({"covered", "covered before", "page: count"})
