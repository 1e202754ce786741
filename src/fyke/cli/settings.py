"""`fyke settings`: what is set, and where it was set."""

from __future__ import annotations

from fyke.cli.flags import Json
from fyke.cli.output import print_json, table
from fyke.cli.verb import group, verb
from fyke.settings import Lane, Loaded, all_settings, shown, value_of

app = group("Show what is set, and where it was set.", example="fyke settings show")


@verb(app, "show", example="fyke settings show")
def show(loaded: Loaded, as_json: Json = False) -> None:
    """Show every setting with its value and where it was set; secrets are masked."""
    rows = [(each.name, shown(each, value_of(loaded.settings, each.name)), each.variable) for each in all_settings()]
    for host, lane in loaded.settings.lanes.items():
        given = [each for each in all_settings(Lane) if value_of(lane, each.name) is not None]
        rows += [(f"lanes.{host}.{each.name}", shown(each, value_of(lane, each.name)), "") for each in given]
    if as_json:
        print_json(
            [
                {"name": name, "value": value, "origin": loaded.origins[name], "variable": variable}
                for name, value, variable in rows
            ]
        )
        return
    table(("SETTING", "VALUE", "FROM"), [(name, value, loaded.origins[name]) for name, value, _ in rows])
