"""Two hundred broken source files: each gets one line with file, line, field and a way out, and never a traceback."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fyke.cli import run

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted([*(ROOT / "examples" / "sources").glob("*.yaml"), *(ROOT / "examples" / "real").glob("*.yaml")])
WANTED = 200
MUTATED = 320
KEY = re.compile(r"([a-z_]{3,}):")

Mutation = Callable[[str, random.Random], str]


def _lines(text: str) -> list[int]:
    """The lines that say something."""
    return [at for at, line in enumerate(text.splitlines()) if line.strip() and not line.lstrip().startswith("#")]


def _on_line(text: str, random: random.Random, change: Callable[[str], str]) -> str:
    lines = text.splitlines()
    at = random.choice(_lines(text))
    lines[at] = change(lines[at])
    return "\n".join(lines) + "\n"


def misspell_a_key(text: str, random: random.Random) -> str:
    found = random.choice(list(KEY.finditer(text)))
    name = found[1]
    at = random.randrange(len(name))
    return text[: found.start()] + name[:at] + random.choice("xqz") + name[at + 1 :] + text[found.end() - 1 :]


def leave_a_letter_out(text: str, random: random.Random) -> str:
    found = random.choice(list(KEY.finditer(text)))
    at = random.randrange(len(found[1]))
    return text[: found.start() + at] + text[found.start() + at + 1 :]


def drop_a_line(text: str, random: random.Random) -> str:
    lines = text.splitlines()
    del lines[random.choice(_lines(text))]
    return "\n".join(lines) + "\n"


def repeat_a_line(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: f"{line}\n{line}")


def indent_a_line(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: f"   {line}")


def tab_a_line(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: f"\t{line}")


def lose_a_sign(text: str, random: random.Random) -> str:
    found = random.choice(list(re.finditer(r"[\[\]{}:,'\"]", text)))
    return text[: found.start()] + text[found.end() :]


def double_a_sign(text: str, random: random.Random) -> str:
    found = random.choice(list(re.finditer(r"[\[\]{}:,'\"]", text)))
    return text[: found.end()] + found[0] + text[found.end() :]


def empty_a_value(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: re.sub(r":\s.*", ":", line, count=1))


def make_a_value_a_list(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: re.sub(r":\s(.*)", ": [[1]]", line, count=1))


def make_a_value_a_number(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: re.sub(r":\s(.*)", ": -7", line, count=1))


def make_a_value_a_mapping(text: str, random: random.Random) -> str:
    return _on_line(text, random, lambda line: re.sub(r":\s(.*)", ": {a: {b: c}}", line, count=1))


def break_a_selector(text: str, random: random.Random) -> str:
    return re.sub(r'css: ("[^"]*"|[\w.#-]+)', 'css: "a[[("', text, count=random.randint(1, 3))


def break_a_regex(text: str, random: random.Random) -> str:
    return re.sub(r"regex: '[^']*'", "regex: '(['", text, count=1)


def name_a_step_that_is_none(text: str, random: random.Random) -> str:
    return text.replace("absolute_url", random.choice(["absolut_url", "absolute", "url", "datetimes"]), 1)


def name_a_field_that_is_none(text: str, random: random.Random) -> str:
    return re.sub(r"\{field: \w+", "{field: " + random.choice(["adress", "urls", "ident"]), text, count=1)


def spoil_a_duration_or_cron(text: str, random: random.Random) -> str:
    spoilt = text.replace("* * *", random.choice(["* *", "99 * *", "every day"]), 1)
    return spoilt if random.random() < 0.5 else re.sub(r"\b\d+[hdm]\b", "soon", text, count=1)


def cut_the_file(text: str, random: random.Random) -> str:
    return text[: random.randrange(1, len(text))]


def put_bytes_in(text: str, random: random.Random) -> str:
    at = random.randrange(len(text))
    return (
        text[:at]
        + random.choice(["\x07", "\x00", "\ufffe", "&a *a", "!!python/object:os.system", "<<: {}"])
        + text[at:]
    )


MUTATIONS: tuple[Mutation, ...] = (
    misspell_a_key,
    leave_a_letter_out,
    drop_a_line,
    repeat_a_line,
    indent_a_line,
    tab_a_line,
    lose_a_sign,
    double_a_sign,
    empty_a_value,
    make_a_value_a_list,
    make_a_value_a_number,
    make_a_value_a_mapping,
    break_a_selector,
    break_a_regex,
    name_a_step_that_is_none,
    name_a_field_that_is_none,
    spoil_a_duration_or_cron,
    cut_the_file,
    put_bytes_in,
)


TOLD = re.compile(r"(?P<file>[^:]+):(?P<line>[1-9]\d*): (?P<field>[^ ].*?): (?P<what>.+) \((?P<hint>.+)\)")


def mutated(folder: Path) -> Iterator[tuple[str, str]]:
    """Examples changed by chance, the same ones each time; some still load."""
    chance = random.Random(20261130)
    profiles = folder / "profiles"
    profiles.mkdir()
    for profile in (ROOT / "examples" / "sources" / "profiles").glob("*.yaml"):
        (profiles / profile.name).write_text(profile.read_text(encoding="utf-8"), encoding="utf-8")
    texts = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES}
    # Short ones that have something for each mutation: what is broken does not depend on how much stands around it.
    rich = [name for name, text in texts.items() if all(part in text for part in ("absolute_url", "regex: '", "css: "))]
    names = sorted(rich, key=lambda name: len(texts[name]))[:5]
    for attempt in range(MUTATED):
        mutation, name = MUTATIONS[attempt % len(MUTATIONS)], chance.choice(names)
        path = folder / f"broken{attempt}.yaml"
        path.write_text(mutation(texts[name], chance), encoding="utf-8")
        yield f"{mutation.__name__} of {name}", path.name


def test_each_of_200_broken_files_is_told_in_one_line_with_a_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {name: what for what, name in mutated(tmp_path)}
    assert run(["source", "check", *files]) == 2
    out, err = capsys.readouterr()
    assert (err, "Traceback" in out, "unexpected error" in out) == ("", False, False)
    lines = [line for line in out.splitlines() if not line.endswith(" is good")]
    told = {found["file"] for line in lines if (found := TOLD.fullmatch(line))}
    assert [line for line in lines if TOLD.fullmatch(line) is None] == []
    # One line each, and the kinds of mistakes are many.
    assert len(lines) == len(told) >= WANTED
    assert len({files[name].partition(" of ")[0] for name in told}) == len(MUTATIONS)


@pytest.mark.parametrize("command", [("source", "check"), ("try",), ("source", "apply"), ("record",)])
def test_a_broken_file_ends_every_command_with_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("id: a\nlisting: {rows: {csss: li}}\n", encoding="utf-8")
    assert run([*command, "a.yaml"]) == 2
    (line,) = "".join(capsys.readouterr()).splitlines()
    assert TOLD.fullmatch(line.removeprefix("fyke: "))
