"""An address that a person submits → the entry that a list would have shown for it."""

from __future__ import annotations

from collections.abc import Mapping

from fyke.errors import UsageError, nearest
from fyke.model import Entry, Fields
from fyke.policy.identity import content_hash, key_of
from fyke.policy.politeness import lane_of
from fyke.sources.document import Document
from fyke.sources.faults import Misfit, StepFailed
from fyke.sources.nodes import stored_value, text_of
from fyke.sources.source import FileSource


def submitted_entry(source: FileSource, position: int, url: str, given: Mapping[str, str]) -> Entry:
    """The entry of `url`, with the fields that were given beside it; its key by the source's own rule.

    Raises:
        UsageError: the source has no detail pages, a field is unknown or does not fit, or no key comes out.
    """
    name = source.resolved.id
    if not source.steps:
        raise UsageError(
            f"source {name!r} has no detail pages: there is nothing to visit", hint="its entries come from its lists"
        )
    lane_of(url)
    fields = _fields(source, {"url": url, **given})
    context = source.plan.context(Document("", url), source.plan.listings[0].values, fields)
    try:
        key = key_of(text_of(source.plan.key.read("identity.key", context)) or "")
        address = source.plan.steps[0].request.make(fields).url
    except (Misfit, StepFailed, ValueError, UsageError) as error:
        raise UsageError(
            f"no item comes out of {url}: {error}", hint="give what the source's lists show with --field NAME=VALUE"
        ) from error
    compared = [each for each in source.list_fields if each in source.compared]
    return Entry(position, key, fields, content_hash(fields, compared), url=address, lane=lane_of(address))


def _fields(source: FileSource, given: Mapping[str, str]) -> Fields:
    fields: Fields = {}
    for name, text in given.items():
        if name != "url" and name not in source.list_fields:
            hint = nearest(name, source.list_fields) or f"there are {', '.join(source.list_fields)}"
            raise UsageError(f"the lists of {source.resolved.id!r} show no field {name!r}", hint=hint)
        kind = source.plan.types.get(name)
        value = text if kind is None else stored_value(text, kind, source.plan.zone)
        if value is None:
            raise UsageError(f"{text!r} does not fit the field {name!r}", hint=f"it is of type {kind}")
        fields[name] = value
    return fields
