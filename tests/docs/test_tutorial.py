"""The pages of the tutorial are run as they stand: files written, commands typed, what they print compared."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fyke.cli import run
from tests.docs.pages import ROOT

# What a reader does once, and what runs for good.
NOT_RUN = ("make setup", ". .venv/bin/activate", "fyke run")
_PART = re.compile(r"(?:^`(?P<file>[\w./]+)`:\n\n)?^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody who types a page, in a folder of their own, with the servers of the lab on free ports."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._stack, self._monkeypatch = folder, stack, monkeypatch
        self.ports: dict[str, str] = {}
        self.file = ""
        self.example: Path | None = None
        monkeypatch.chdir(folder)

    def here(self, text: str) -> str:
        for shown, free in self.ports.items():
            text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{free}")
        return text

    def write(self, file: str, text: str) -> None:
        # A later state of a file stands without its name before it.
        self.file = file or self.file
        if self.example:
            assert text == (self.example / self.file).read_text(encoding="utf-8")
        Path(self.file).write_text(self.here(text), encoding="utf-8")

    def type(self, line: str) -> None:
        words = shlex.split(self.here(line), comments=True)
        if " ".join(words) in NOT_RUN or not words:
            return
        if words[:2] == ["fyke", "lab"]:
            self._serve(words)
        elif words[0] == "fyke":
            run(words[1:])
            self._find_ports()
        elif words[0] == "cd":
            self._go(words[1])
        elif words[:2] == ["curl", "-d"]:
            json.loads(words[2])
            urllib.request.urlopen(words[3], data=words[2].encode(), timeout=10).close()
        else:
            raise AssertionError(f"the test does not know how to type {line!r}")

    def _serve(self, words: list[str]) -> None:
        place = words.index("--port") + 1
        shown, words[place] = words[place], "0"
        command = [sys.executable, "-m", "fyke", *words[1:]]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._stack.callback(server.wait, 30)
        self._stack.callback(server.terminate)
        assert server.stdout is not None
        self._stack.callback(server.stdout.close)
        for line in server.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.ports[shown] = found[1]
                break
        self._find_ports()

    def _find_ports(self) -> None:
        """Files that a command or an example brought name the port of the page."""
        for file in [*Path().glob("*.toml"), *Path().glob("sources/*.yaml")]:
            text = file.read_text(encoding="utf-8")
            if self.here(text) != text:
                file.write_text(self.here(text), encoding="utf-8")

    def _go(self, folder: str) -> None:
        if (ROOT / folder).is_dir() and folder.startswith("examples/"):
            self.example = ROOT / folder
            shutil.copytree(self.example, self.folder / folder)
        self._monkeypatch.chdir(folder)
        self._find_ports()


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def missing(told: str, printed: str) -> list[str]:
    """The lines of a page that do not come, in their order, among those that were printed."""
    lines, lost = iter(squeezed(printed)), []
    for wanted in squeezed(told):
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.replace(" … ", "…").split("…")))
        rest = list(lines)
        place = next((n for n, line in enumerate(rest) if pattern.fullmatch(line)), None)
        if place is None:
            lost.append(wanted)
        lines = iter(rest if place is None else rest[place + 1 :])
    return lost


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FYKE_LEDGER", raising=False)
    with ExitStack() as stack:
        yield Reader(tmp_path, stack, monkeypatch)


@pytest.mark.parametrize("page", ["tutorial.md", "tutorial-list-to-table.md"])
def test_the_tutorial_does_and_prints_what_it_says(
    page: str, reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, compared = "", 0
    for part in _PART.finditer((ROOT / "docs" / page).read_text(encoding="utf-8")):
        match part["info"]:
            case "sh":
                for line in part["text"].splitlines():
                    reader.type(line)
                printed = capsys.readouterr().out
            case "yaml source":
                reader.write(part["file"] or "", part["text"])
            case "":
                assert missing(reader.here(part["text"]), printed) == [], printed
                compared += 1
    assert compared >= 4


def test_what_a_page_says_and_a_command_does_not_print_is_found() -> None:
    printed = "made fyke.toml\nlisted 30   stored 29\nrun 3 took 4 s\n"
    assert missing("listed 30 stored 29\nrun 3 …\n", printed) == []
    assert missing("listed 30 stored 30\nrun 3 … s\n", printed) == ["listed 30 stored 30"]
    assert missing("run 3 …\nmade fyke.toml\n", printed) == ["made fyke.toml"]
