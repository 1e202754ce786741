"""`fyke init`: a folder to begin in: settings, one source that works on the lab's site, and what git leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fyke.errors import UsageError
from fyke.settings import all_settings, shown

FIRST_SOURCE: Final = "sources/notices.yaml"
SITE: Final = "http://127.0.0.1:8080"

# What most people change first; the reference has all.
_SHOWN: Final = (
    "ledger",
    "frontier",
    "sources",
    "worker.concurrency",
    "worker.processes",
    "attempts.limit",
    "give_up.after",
    "hold.first",
    "blocks_to_pause",
    "fetch.user_agent",
    "alerts.webhook",
    "log.level",
)

SOURCE: Final = """\
# One source in one file. This one reads the lab's site: `fyke lab site --port 8080 --items 30` in a second terminal.
# For a site of your own: `fyke new URL -o sources/NAME.yaml`. All keys: docs/reference/source-file.md
id: notices
title: The lab's announcements

# When it runs (five fields of cron), and the zone of times that name none.
schedule: {cron: "0 8 * * *", timezone: Asia/Shanghai}

listing:
  # Where the list is, and how its pages follow each other: index.html, index_2.html, index_3.html …
  request: {url: "http://127.0.0.1:8080/list/{page}"}
  pages: {number: {first: index.html, then: "index_{n}.html", from: 2}}
  # The container of the rows, and each row in it. A page without the container does not fit: it is no empty list.
  rows: {in: ul.list, css: "> li"}
  # What a row says. `published` is what coverage reads dates from.
  fields:
    url: {css: "a::attr(href)", then: [absolute_url]}
    published: {css: em, then: [{datetime: "%Y-%m-%d %H:%M"}]}
  # How far back the first walk goes: 7d, a date, or all.
  start: all

# What makes a row this item, and no other. A number in the address outlives a move of the site.
identity: {scope: notices, key: {field: url, then: [{regex: '_(\\d+)\\.html'}]}}

# The page behind a row. Without `detail` the row itself is the record.
detail:
  steps:
    - request: {url: "{url}"}
      fields:
        title: {css: h1, required: true}
        buyer: {label: 采购单位}
        budget: {label: 预算金额, then: [{money: CNY}], optional: true}

# The table in the ledger's database.
store: {table: notices}

# Only because the lab's site runs on this machine. The usual pace is one request in 1.2 s per host.
fetch: {private_addresses: allow}
"""

GITIGNORE: Final = """\
# The ledger, and what SQLite keeps beside it.
*.db
*.db-*
# What `fyke export -o` leaves while it writes.
*.part
# Secrets of sources are variables (FYKE_SECRET_NAME); if you keep them in a file, keep it out of here.
.env
"""

_HEAD: Final = """\
# Settings of this project. Each line with a # before it shows the default; take the # away to change it.
# `fyke settings show` tells what holds and where it was set. All settings: docs/reference/settings.md
"""


def make_project(folder: Path) -> list[Path]:
    """Write the project's files; nothing is written where one of them is there already.

    Raises:
        UsageError: a file is there, or the folder cannot be made.
    """
    texts = {"fyke.toml": settings_text(), FIRST_SOURCE: SOURCE, ".gitignore": GITIGNORE}
    for name in texts:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise UsageError(
                "is there already, and is not overwritten", file=str(folder / name), hint="name a new folder"
            )
    try:
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", file=str(error.filename or folder)) from error
    return [folder / name for name in texts]


def settings_text() -> str:
    """`fyke.toml` with the defaults of the code, as comments."""
    known = {setting.name: setting for setting in all_settings()}
    lines = [_HEAD]
    section = ""
    for name in sorted(_SHOWN, key=lambda name: ("." in name, _SHOWN.index(name))):
        setting = known[name]
        group, _, last = name.rpartition(".")
        if group != section:
            lines.append(f"[{group}]")
            section = group
        lines.append(f"# {setting.text}")
        default = shown(setting, setting.default) if setting.default is not None else ""
        number = isinstance(setting.default, int) and setting.kind == "number"
        lines.append(f"# {last} = {default if number else chr(34) + default + chr(34)}\n")
    return "\n".join(lines)
