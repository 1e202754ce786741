"""Every command that a page shows is one of the real command line: its verbs, its options, its number of words."""

import re
import shlex
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from fyke.cli import app
from tests.docs.pages import PAGES, ROOT, commands, name

ROOT_COMMAND: Any = typer.main.get_command(app)
# Examples put a number or a name where these stand.
STANDS_FOR = {"N": "1", "RUN": "1", "ID": "1", "…": ""}


def mistake(line: str) -> str | None:
    """What the command line says of it, or None. Nothing is run."""
    words = [STANDS_FOR.get(word, word) for word in shlex.split(line)[1:]]
    if words in (["--install-completion"], ["--show-completion"]):
        # They act while the line is read: only whether they are there.
        there = {option for parameter in ROOT_COMMAND.params for option in parameter.opts}
        return None if words[0] in there else f"no option {words[0]}"
    command, context, used = ROOT_COMMAND, None, "fyke"
    try:
        while True:
            # In prose a verb may stand alone, to be spoken of.
            context = command.make_context(used, list(words), parent=context, resilient_parsing=not words)
            rest = [*getattr(context, "_protected_args", []), *context.args]
            if not hasattr(command, "get_command") or not rest:
                return None
            used, command, words = command.resolve_command(context, rest)
            if command is None:
                return f"no verb {rest[0]!r}"
            if not words:
                return None
    except typer.Exit:
        return None
    except TyperException as error:
        return f"{type(error).__name__}: {error}"


SHOWN = sorted({(name(path), line) for path in PAGES for line in commands(path)})


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_command_that_a_page_shows_exists(page: str, line: str) -> None:
    assert mistake(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "fyke collect",
        "fyke run --twice",
        "fyke source chek",
        "fyke gaps close 3 --because x",
        "fyke runs accept seventeen --reason x",
        "fyke explain only-one --json",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert mistake(line) is not None


def test_both_first_pages_show_the_same_commands() -> None:
    english, chinese = (list(commands(ROOT / file)) for file in ("README.md", "README.zh-CN.md"))
    assert chinese == [line for line in english if line in set(chinese)]
    in_blocks = [line for line in english if line in set(chinese)]
    assert {"fyke try notices", "fyke run --once", "fyke audit", "fyke run"} <= set(in_blocks)


def test_every_target_of_make_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {
        (name(path), target)
        for path in PAGES
        for target in re.findall(r"(?:`|^ {0,4})make ([a-z]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {target for _, target in named} >= {"demo", "test"}
    assert {(page, target) for page, target in named if target not in targets} == set()
