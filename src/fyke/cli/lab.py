"""`fyke lab`: servers to test with: a seeded site that misbehaves on demand, and saved pages."""

from __future__ import annotations

import dataclasses
import errno
import inspect
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fyke.cli import lab_chaos, lab_load, lab_modes
from fyke.cli.verb import group, verb
from fyke.errors import UsageError
from fyke.lab.replay import run_replay
from fyke.lab.site import SiteConfig, run_site

INDEX_NAME: Final = "replay.tsv"
NOT_TO_BE_HAD: Final = (errno.EADDRINUSE, errno.EACCES, errno.EPERM)

app = group("Servers to test with: a misbehaving site, saved pages.", example="fyke lab site --items 100 --port 8080")

# What each field of SiteConfig does; the flags are made from it. Rates are shares from 0 to 1 of the pages.
SITE_HELP: Final = {
    "seed": "The same seed serves the same site.",
    "items": "Notices at the start.",
    "per_page": "Rows of a list page.",
    "latency_ms": "Each answer waits this long.",
    "detail_size": "About how many bytes a detail page has.",
    "newest": "When the newest of the first notices was published.",
    "corrections": "How often a notice corrects an earlier one.",
    "awards": "How often a notice gives the result of an earlier one.",
    "same_title": "How often a notice bears the title of the one before.",
    "pinned": "Notices on top of every list page.",
    "linkless": "Rows without a link.",
    "dead": "Details that are gone for good.",
    "dead_status": "The status of those.",
    "poison": "Details without their title element.",
    "private": "Details that robots.txt forbids.",
    "gbk": "Rate of pages in GB18030 that call themselves gb2312.",
    "list_layout": "2 renames the list's container.",
    "detail_layout": "2 renames the detail's title and body elements.",
    "moves": "Changes while the list is read: at most so many.",
    "moves_every": "One of them after so many list requests.",
    "move_kinds": "Which changes: add, remove, edit.",
    "empty_lists": "Rate of list pages that are empty once.",
    "late": "Rate of details that are 404 at first.",
    "late_hits": "How many times those are.",
    "busy": "Rate of pages that answer 503 at first.",
    "throttled": "Rate of pages that answer 429 at first.",
    "burst": "How many times 503 or 429 come.",
    "retry_after": "Seconds that Retry-After names.",
    "resets": "Rate of pages whose connection is reset before the answer.",
    "cuts": "Rate of pages that are cut in the middle of the body.",
    "slow": "Rate of pages whose body comes slowly.",
    "slow_seconds": "How long those take.",
    "endless": "Rate of pages whose body does not end.",
    "soft_blocks": "Rate of pages that are a block page with status 200 at first.",
    "soft_block_hits": "How many times those are.",
    "script": "Exact faults of one path, one a request: /detail/t20261120_1.html=busy,ok,reset",
    "robots": "A file to serve as /robots.txt; 'none' answers 404.",
    "etag": "Send ETag and answer 304.",
    "arrivals_kept": "Requests that /_hits tells one by one.",
}

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")]
Host = Annotated[str, typer.Option("--host", help="The address to listen at.")]


def site(port: int, host: str, **fields: Any) -> None:
    """Serve a seeded announcement site that knows its own truth, until it is stopped; its address is printed.

    The truth is at /_truth, hit counts are at /_hits; POST /_control changes the site.
    """
    try:
        config = SiteConfig(**{name: _value(name, value) for name, value in fields.items() if value is not None})
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from error
    with _listening(host, port):
        run_site(config, host, port, _tell)


@verb(app, "replay", example="fyke lab replay examples/real --port 8090")
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=f"A folder with an index {INDEX_NAME}.")],
    files: Annotated[
        Path | None, typer.Option("--files", metavar="ROOT", help="Where the index's files stand, if not beside it.")
    ] = None,
    port: Port = 0,
    host: Host = "127.0.0.1",
) -> None:
    """Serve saved pages under their own addresses until it is stopped; set fetch.replay to the printed address."""
    index = folder / INDEX_NAME if folder.is_dir() else folder
    if not index.is_file():
        raise UsageError(f"there is no {index}", hint=f"DIR holds an index {INDEX_NAME}")
    with _listening(host, port):
        run_replay(index, host, port, _tell, root=files)


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    """A port or an address that cannot be had is the user's to change."""
    try:
        yield
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise UsageError(f"{host!r} is no address of this machine", field="--host") from error
        if error.errno not in NOT_TO_BE_HAD:
            raise
        why = "is in use" if error.errno == errno.EADDRINUSE else "may not be listened at"
        raise UsageError(f"port {port} {why}", field="--port", hint="name another one; 0 takes a free one") from error


def _tell(url: str) -> None:
    typer.echo(url)
    sys.stdout.flush()


def _value(name: str, value: Any) -> Any:
    if name == "script":
        pairs = [text.partition("=") for text in value]
        return {path: tuple(faults.split(",")) for path, _, faults in pairs}
    if name == "move_kinds":
        return tuple(value.split(","))
    if name == "robots":
        return None if value == "none" else Path(value).read_text(encoding="utf-8")
    return value


def _site_signature() -> inspect.Signature:
    """One option a field, so that each fault of the site has its flag."""
    shared = inspect.signature(replay, eval_str=True).parameters
    options = [shared[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in ("port", "host")]
    for each in dataclasses.fields(SiteConfig):
        kind: Any = {"int": int, "float": float, "bool": bool}.get(str(each.type), str)
        default: Any = each.default
        if each.name == "script":
            kind, default = list[str] | None, None
        elif each.name == "move_kinds":
            default = ",".join(default)
        elif each.name == "robots":
            kind, default = str | None, None
        annotation = Annotated[kind, typer.Option(f"--{each.name.replace('_', '-')}", help=SITE_HELP[each.name])]
        options.append(
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return inspect.Signature(options)


site.__signature__ = _site_signature()  # type: ignore[attr-defined]
verb(app, "site", example="fyke lab site --items 100 --busy 0.1 --port 8080")(site)
lab_modes.add(app)
lab_load.add(app)
lab_chaos.add(app)
