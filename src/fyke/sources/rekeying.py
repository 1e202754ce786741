"""The key that a source's rules give to an item that is stored already (P1)."""

from __future__ import annotations

from collections.abc import Mapping

from fyke.errors import UsageError
from fyke.model import Fields
from fyke.policy.identity import key_of
from fyke.sources.document import Document
from fyke.sources.faults import Misfit, StepFailed
from fyke.sources.nodes import text_of
from fyke.sources.source import FileSource


def key_again(source: FileSource, fields: Fields, url: str, values: Mapping[str, str]) -> str:
    """The key of an item, from the fields of its entry and the values of its listing.

    Raises:
        UsageError: no key comes out.
    """
    context = source.plan.context(Document("", url), values, dict(fields))
    try:
        return key_of(text_of(source.plan.key.read("identity.key", context)) or "")
    except (Misfit, StepFailed, ValueError) as error:
        raise UsageError(f"no key: {error}") from error
