"""Names of months, whole and short: English, German, French, Spanish, Portuguese, Italian, Dutch."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_NAMES: Final = (
    "january jan januar jänner jän januari janvier janv enero ene janeiro gennaio gen",
    "february feb februar februari février fevrier févr fév febrero fevereiro fev febbraio",
    "march mar märz mär mrz maart mrt mars marzo março marco",
    "april apr avril avr abril abr aprile",
    "may mai mei mayo maio maggio mag",
    "june jun juni juin junio junho giugno giu",
    "july jul juli juillet juil julio julho luglio lug",
    "august aug augustus août aout aoû agosto ago",
    "september sep sept septembre septiembre setiembre setembro settembre set",
    "october oct oktober okt octobre octubre outubro out ottobre ott",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre déc diciembre dic dezembro dicembre",
)
_NUMBERS: Final = MappingProxyType({name: at for at, names in enumerate(_NAMES, 1) for name in names.split()})


def month_number(name: str) -> int | None:
    """1 to 12, whatever the case; None for a word that is no month."""
    return _NUMBERS.get(name.lower())
