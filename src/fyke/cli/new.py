"""`fyke new`: read a list page and propose a source file for it, shown with what it finds, for a person to correct."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fyke.app.proposing import asking_source, proposals_of, propose_from
from fyke.cli.flags import Json
from fyke.cli.output import plain, print_json, say, shortened, table
from fyke.cli.try_ import saved_response
from fyke.cli.verb import one_verb, verb
from fyke.errors import FetchFailed, UsageError
from fyke.fetchers.guard import MEANT
from fyke.pipeline.requests import judge
from fyke.settings import Loaded
from fyke.sources.loader import SUFFIXES
from fyke.sources.proposing import Asked, Proposal

ROWS_SHOWN: Final = 10
NO_PROPOSAL: Final = (
    "nothing on the page repeats that has links: if its rows come by a script, look in the browser's network view for"
    " the JSON that the script asks for, and give that address"
)

app = one_verb()


@verb(app, "new", example="fyke new https://www.example.org/notices/ -o sources/notices.yaml")
async def new(
    loaded: Loaded,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of a list page, a feed or a JSON list.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the source there; it must not exist.")
    ] = None,
    take: Annotated[int, typer.Option("--take", min=1, metavar="N", help="Which proposal, where several are.")] = 1,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Read this saved page; nothing is fetched.")
    ] = None,
    form: Annotated[
        list[str] | None, typer.Option("--form", metavar="NAME=VALUE", help="Ask by POST, with this field of a form.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="The host may be one inside this network.")] = False,
    as_json: Json = False,
) -> int:
    """Read a list page and propose a source file for it: where rows, links, titles, dates and the next page are.

    The page is fetched as any run would: by robots.txt and slowly. A feed that the page names is proposed first. Look
    at what is read, correct the file, and go on with `fyke try FILE`. Exits with 1 where nothing can be proposed.
    """
    name = _checked(out)
    asked = Asked(url, _form(form or []), id=name, private=private)
    asking = asking_source(asked)
    try:
        if page is None:
            found = await propose_from(loaded.settings, asked)
        else:
            response = saved_response(asking, page, url)
            judge(response, asking.fetch)
            found = proposals_of(response, asked)
    except FetchFailed as error:
        if as_json:
            print_json({"outcome": error.outcome, "reason": error.reason, "proposals": []})
        else:
            # Here is no source yet that could say so.
            reason = error.reason.replace(MEANT, "--private allows it")
            say(f"{url}: {error.outcome}: {plain(reason)}")
        return 1
    if take > max(1, len(found)):
        raise UsageError(f"there is no proposal {take}", field="--take", hint=f"there are {len(found)}")
    if as_json:
        print_json({"outcome": "ok" if found else "empty", "proposals": [_json(one) for one in found]})
    elif not found:
        say(f"{url}: {NO_PROPOSAL}.")
    if not found:
        return 1
    chosen = found[take - 1]
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(chosen.text, encoding="utf-8")
    if not as_json:
        _show(found, take, out)
    return 0


def _checked(out: Path | None) -> str | None:
    """The id that the file's name gives.

    Raises:
        UsageError: the file is there, or is no source file by its name.
    """
    if out is None:
        return None
    if out.suffix not in SUFFIXES:
        raise UsageError(f"{out} is no name of a source file", field="--output", hint="such as sources/notices.yaml")
    if out.exists():
        raise UsageError("is there already, and is not overwritten", file=str(out), hint="name another file")
    name = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in out.stem)
    return name.lstrip("._-")[:60] or None


def _form(fields: list[str]) -> dict[str, str]:
    found = {}
    for text in fields:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UsageError(f"--form {text} has no value", hint="write --form NAME=VALUE")
        found[name] = value
    return found


def _json(one: Proposal) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "url": one.url,
        "text": one.text,
        "notes": one.notes,
        "entries": [{"key": entry.key, "fields": entry.fields} for entry in one.page.entries],
        "refused": [{"position": entry.position, "reason": entry.reason} for entry in one.page.refused],
        "next": None if one.page.next is None else one.source.list_request(_listing(one), one.page.next).url,
    }


def _listing(one: Proposal) -> Any:
    return one.source.listings()[0]


def _show(found: list[Proposal], take: int, out: Path | None) -> None:
    chosen = found[take - 1]
    if out is None:
        say(chosen.text)
    page = chosen.page
    names = list(chosen.source.list_fields)
    table(
        ("KEY", *names),
        [
            (shortened(entry.key, 40), *(shortened(entry.fields.get(name)) for name in names))
            for entry in page.entries[:ROWS_SHOWN]
        ],
    )
    more = len(page.entries) - ROWS_SHOWN
    say(f"{len(page.entries)} entries{f' ({more} more)' if more > 0 else ''}, {len(page.refused)} refused")
    for entry in page.refused[:ROWS_SHOWN]:
        say(f"refused row {entry.position}: {plain(entry.reason)}: {shortened(entry.raw, 100)}")
    if page.next is not None:
        say(f"next page: {chosen.source.list_request(_listing(chosen), page.next).url}")
    for note in chosen.notes:
        say(f"note: {note}")
    for at, one in enumerate(found, 1):
        if at != take:
            say(f"also: --take {at}: {one.kind} with {len(one.page.entries)} entries, {one.url}")
    if out is None:
        say("Nothing is written; -o FILE writes it.")
    else:
        say(f"Written to {out}. Type next: fyke try {out}")
