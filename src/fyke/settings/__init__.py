"""Settings: `fyke.toml`, `FYKE_*` variables over it, flags over both. Frozen once read."""

from fyke.settings.load import Loaded, load_settings
from fyke.settings.places import FrontierKind, LedgerKind, masked, secrets_of
from fyke.settings.schema import Lane, Setting, Settings, all_settings, hidden, value_of
from fyke.settings.values import shown

__all__ = [
    "FrontierKind",
    "Lane",
    "LedgerKind",
    "Loaded",
    "Setting",
    "Settings",
    "all_settings",
    "hidden",
    "load_settings",
    "masked",
    "secrets_of",
    "shown",
    "value_of",
]
