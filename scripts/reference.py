"""Write docs/reference/settings.md and commands.md from the code. A test compares them with what this writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from fyke.cli import app
from fyke.settings import Lane, all_settings, shown

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"

SETTINGS_HEAD = """\
# Settings

Written from the code by `scripts/reference.py`; a test compares.

Settings are read from three places, and the later ones win:

1. `fyke.toml` in the working folder;
2. variables: `FYKE_` and the name in capitals, `_` for each dot (`FYKE_WORKER_CONCURRENCY` is `worker.concurrency`);
3. flags: `--set worker.concurrency=4`, and for two of them `--ledger` and `--sources`.

A name that is not in the list, in the file or as a `FYKE_` variable, is an error that tells the nearest one.
`fyke settings show` prints what holds and where it was set, with secrets masked.

Durations are written `500ms`, `30s`, `10m`, `36h`, `7d` or `2w`, sizes `800kB`, `50MB` or `1MiB`. Relative paths begin
in the working folder. Secrets of sources are no settings: they are variables `FYKE_SECRET_NAME`. `FYKE_DEBUG=1` shows
where an unexpected error came from.

```toml
ledger = "sqlite:///fyke.db"

[worker]
concurrency = 16

[lanes."www.example.org"]
delay = "5s"
```

| setting | default | variable | what it says |
|---|---|---|---|
"""

LANES_HEAD = """
## Hosts

`[lanes."HOST"]` in `fyke.toml` says what holds at a host instead of the strictest word of its sources. Host and port
as in the address: `www.example.org` or `www.example.org:8080`.

| setting | what it says |
|---|---|
"""

COMMANDS_HEAD = """\
# Commands

Written from the code by `scripts/reference.py`; a test compares.

Every command has `-h` and `--help` with an example. `--json` prints results as JSON on standard output; progress and
log lines go to standard error.

Exit codes: 0 done · 1 something needs attention (a gap, a dead item, a difference in the audit, a server that is away)
· 2 the user's mistake: the message names it, its place and the nearest valid name · 130 stopped by Ctrl-C.
"""


def settings_page() -> str:
    rows = [
        _row(f"`{each.name}`", _code(shown(each, each.default)), f"`{each.variable}`", each.text + _limits(each))
        for each in all_settings()
    ]
    lanes = [_row(f"`{each.name}`", each.text) for each in all_settings(Lane)]
    return SETTINGS_HEAD + "\n".join(rows) + "\n" + LANES_HEAD + "\n".join(lanes) + "\n"


def commands_page() -> str:
    return COMMANDS_HEAD + "".join(_command("fyke", typer.main.get_command(app)))


def _limits(setting: Any) -> str:
    if setting.choices:
        return f" One of {', '.join(setting.choices)}."
    return f" {setting.limits['min']} to {setting.limits['max']}." if "max" in setting.limits else ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n## `{name}`\n\n{(command.help or '').strip()}\n\n```\n{name} {usage}\n```\n"
    rows = [_parameter(each) for each in command.params if not getattr(each, "hidden", False)]
    if rows:
        yield "\n| option | what it does |\n|---|---|\n" + "\n".join(rows) + "\n"
    if command.epilog:
        yield f"\n{_example(command.epilog)}\n"
    if hasattr(command, "list_commands"):
        for below in command.list_commands(context):
            yield from _command(f"{name} {below}", command.get_command(context, below))


def _example(epilog: str) -> str:
    mark = "Example: "
    return f"{mark}`{epilog.removeprefix(mark)}`" if epilog.startswith(mark) else epilog


def _parameter(each: Any) -> str:
    if each.param_type_name == "argument":
        name = each.metavar or each.name.upper()
    else:
        name = ", ".join(each.opts) + ("" if each.is_flag else f" {each.metavar or 'VALUE'}")
    default = (
        ""
        if each.default in (None, False, ()) or each.required
        else f" Default: {getattr(each.default, 'value', each.default)}."
    )
    return _row(f"`{name}`", (each.help or "") + default)


PAGES = {"settings.md": settings_page, "commands.md": commands_page}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name}\n")


if __name__ == "__main__":
    main()
