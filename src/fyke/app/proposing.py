"""`fyke new`: asks a site for one list page, as politely as any run would (P4), and proposes sources for it."""

from __future__ import annotations

from dataclasses import replace

from fyke.app.trial import open_trial
from fyke.errors import FetchFailed, UsageError
from fyke.model import Request, Response
from fyke.settings import Settings
from fyke.sources.compile import compile_source
from fyke.sources.faults import Misfit
from fyke.sources.proposing import Asked, Proposal, named_feeds, propose
from fyke.sources.source import FileSource


async def propose_from(settings: Settings, asked: Asked) -> list[Proposal]:
    """Fetch the page, and the feeds that it names; their proposals come first.

    Raises:
        FetchFailed: no usable answer, or robots.txt forbids the page.
        UsageError: the address is none.
    """
    source = asking_source(asked)
    async with open_trial(settings, source) as trial:
        form = list(asked.form.items()) or None
        response = await trial.fetch(Request(url=asked.url, method="POST" if form else "GET", form=form))
        found: list[Proposal] = []
        for address in named_feeds(response):
            if address == response.url:
                continue
            try:
                feed = await trial.fetch(Request(url=address))
            except FetchFailed:
                # That a page names a feed which is not there is no reason to read no list.
                continue
            found += proposals_of(feed, replace(asked, url=address, form={}))
    return found + proposals_of(response, asked)


def proposals_of(response: Response, asked: Asked) -> list[Proposal]:
    """The proposals for an answer in hand; none where the page is one that no parser can read."""
    try:
        return propose(response, asked)
    except Misfit:
        return []


def asking_source(asked: Asked) -> FileSource:
    """What a page is asked with before there is a source: the usual pace, limits and robots.txt.

    Raises:
        UsageError: the address is none.
    """
    if not asked.url.startswith(("http://", "https://")):
        raise UsageError(f"{asked.url!r} is no address", hint="it begins with https:// or http://")
    url = asked.url.replace("{", "%7B").replace("}", "%7D")
    listing = {"request": {"url": url}, "rows": {"css": "a"}, "fields": {"url": {"css": "a::attr(href)"}}}
    data = {
        "id": "new",
        "listing": listing,
        "identity": {"scope": "new", "key": {"field": "url"}},
        "store": {"table": "new"},
        "fetch": {"private_addresses": "allow" if asked.private else "refuse"},
    }
    return compile_source(data, folder=None)
