"""The command's frame: help at once, exit codes, one line for an error, names that are near."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from fyke import __version__
from fyke.cli import VERBS, app, run
from fyke.cli.lab import SITE_HELP
from fyke.errors import TransientError, UsageError, there_are
from fyke.lab.truth import SiteConfig
from scripts.reference import FOLDER, PAGES

FYKE = (sys.executable, "-m", "fyke")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FYKE_")]:
        monkeypatch.delenv(name)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from fyke.cli import run; run(['--help']); print(*sorted(sys.modules))"
    out = subprocess.run((sys.executable, "-c", code), check=True, capture_output=True, text=True).stdout
    loaded = {name.partition(".")[0] for name in out.splitlines()[-1].split()}
    assert "typer" in loaded
    assert loaded & {"aiohttp", "sqlalchemy", "alembic", "msgspec", "pydantic", "rich", "lxml", "asyncio"} == set()


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "--help")
    assert code == 0
    assert re.findall(r"^  (\w+)  ", out, re.MULTILINE) == list(VERBS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--version") == (0, f"fyke {__version__}\n", "")


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_reference_is_what_the_code_says(page: str) -> None:
    assert (FOLDER / page).read_text(encoding="utf-8") == PAGES[page](), "run: python scripts/reference.py"


def commands(name: str = "fyke", command: Any = None) -> list[tuple[str, Any]]:
    """The whole tree: each verb's full name and its command."""
    command = command or typer.main.get_command(app)
    context = typer.Context(command, info_name=name)
    found = [(name, command)]
    for below in command.list_commands(context) if hasattr(command, "list_commands") else ():
        found += commands(f"{name} {below}", command.get_command(context, below))
    return found


def test_every_verb_has_help_and_an_example_of_itself() -> None:
    for name, command in commands():
        assert command.help, name
        if name != "fyke":
            assert f"Example: {name}" in (command.epilog or ""), name
        assert [each.name for each in command.params if not each.help and not getattr(each, "hidden", False)] == []


def test_every_verb_answers_to_h(capsys: pytest.CaptureFixture[str]) -> None:
    for name, _ in commands():
        assert told(capsys, *name.split()[1:], "-h")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("sttatus",), "'status'"),
        (("settings", "shwo"), "'show'"),
        (("settings", "show", "--jsn"), "--json"),
        (("--set", "worker.concurency=3", "settings", "show"), "did you mean 'worker.concurrency'?"),
        (("settings", "show", "--set", "lease"), "--set lease has no value"),
        (("settings", "show", "--ledger", "postgres://db/x"), "write postgresql://USER:PASSWORD@HOST"),
        (("lab", "replay", "no-such-folder"), "there is no no-such-folder"),
        (("lab", "site", "--busy", "3"), "busy is a share from 0 to 1"),
        (("status",), "there is no ledger at fyke.db"),
        (("source", "list"), "there is no folder sources, and nothing is applied (put a source file there"),
        (("status", "--ledger", "sqlite:///."), ". is a folder (name a file in it"),
        (("audit", "--ledger", "sqlite:///not/there.db"), "there is no ledger at not/there.db"),
    ],
)
def test_a_users_mistake_is_told_and_ends_with_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str
) -> None:
    code, out, err = told(capsys, *arguments)
    assert (code, out) == (2, "")
    assert part in err
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", [("site",), ("replay", ".")])
def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]) -> None:
    Path("page.html").write_text("<p>")
    Path("replay.tsv").write_text(
        "method\turl\tfile\tstatus\theaders\tmatch\nGET\thttp://x.example/\t./page.html\t200\t\t\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = told(capsys, "lab", *verb, "--port", str(port))
    assert (code, out) == (2, "")
    assert f"port {port} is in use (name another one" in err


@pytest.mark.parametrize("verb", [("run",), ("run", "--once"), ("run", "--once", "ccgp")])
@pytest.mark.parametrize("folder", [True, False])
def test_a_run_without_a_source_leaves_no_ledger_behind(
    capsys: pytest.CaptureFixture[str], verb: tuple[str, ...], folder: bool
) -> None:
    if folder:
        Path("sources").mkdir()
    code, _, err = told(capsys, *verb)
    assert code == 2
    assert "sources" in err
    assert list(Path().glob("*.db*")) == []


def test_flags_win_wherever_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    def lease(*arguments: str) -> str:
        code, out, _ = told(capsys, *arguments)
        assert code == 0
        return {each["name"]: str(each["value"]) for each in json.loads(out)}["lease"]

    show = ("settings", "show", "--json")
    assert lease("--set", "lease=3s", *show) == "3s"
    assert lease("--set", "lease=3s", *show, "--set", "lease=4s") == "4s"


def test_settings_show_tells_the_origin_and_masks_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("fyke.toml").write_text('[alerts]\nwebhook = "https://me:geheim@hooks.example.org/T0/geheim"\n')
    monkeypatch.setenv("FYKE_LEASE", "20s")
    code, out, _ = told(capsys, "settings", "show")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert code == 0
    assert lines["alerts.webhook"] == ["https://***@hooks.example.org/***", "fyke.toml:2"]
    assert lines["lease"] == ["20s", "FYKE_LEASE"]
    assert lines["frontier"] == ["sql", "default"]
    assert "geheim" not in out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("no such thing", file="a.yaml", line=3, hint="try b"), 2, "a.yaml:3: no such thing (try b)"),
        (TransientError("the disk is full"), 1, "the disk is full; nothing is lost, try again"),
        (RuntimeError("two\nlines"), 1, "unexpected error: RuntimeError: two lines (FYKE_DEBUG=1 shows where)"),
        (KeyboardInterrupt(), 130, None),
    ],
)
def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    text: str | None,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("fyke.cli.verb.load_settings", fail)
    assert told(capsys, "settings", "show") == (code, "", f"fyke: {text}\n" if text else "")


def test_debug_shows_where_an_unexpected_error_came_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("x")

    monkeypatch.setattr("fyke.cli.verb.load_settings", fail)
    monkeypatch.setenv("FYKE_DEBUG", "1")
    code, _, err = told(capsys, "settings", "show")
    assert code == 1
    assert "Traceback" in err


def test_a_reader_that_goes_away_brings_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen((*FYKE, "lab", "site", "-h"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_each_fault_of_the_site_has_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SITE_HELP) == set(SiteConfig.__dataclass_fields__)
    out = told(capsys, "lab", "site", "-h")[1]
    assert [name for name in SITE_HELP if f"--{name.replace('_', '-')}" not in out] == []


def test_a_hint_with_many_names_says_how_many_more_there_are() -> None:
    assert there_are([f"s{n}" for n in range(12)]).endswith("s8, s9 and 2 more")
    assert there_are(["a", "b"]) == "there are a, b"
