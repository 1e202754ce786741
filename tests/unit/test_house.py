"""The rules of the house that no linter holds: sizes, names, the package's root, the pins."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fyke"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

MODULE_LINES = 400
CLASS_LINES = 250
FUNCTION_LINES = 60

# Names that say nothing, so that anything ends up in them.
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "base", "misc"}
# Words that DESIGN 8 replaces: one word per thing. ("seen" is the optional filter before the ledger.)
OTHER_WORDS = {
    *("spider", "job", "jobs", "crawl", "crawler", "dupefilter", "queue", "push", "nack", "reclaim", "save"),
    "quarantine",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(top: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    for path in sorted(top.rglob("*.py")):
        # Environments that a bench has made for others are not ours.
        if any(part.startswith(".") for part in path.relative_to(top).parts):
            continue
        yield path.relative_to(ROOT).as_posix(), path


def parsed() -> Iterator[tuple[str, ast.Module]]:
    for name, path in modules():
        yield name, ast.parse(path.read_text(encoding="utf-8"), name)


def length(node: ast.ClassDef | Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def too_long(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and length(node) > CLASS_LINES:
            yield f"{node.lineno}: class {node.name} has {length(node)} lines; {CLASS_LINES} at most"
        if isinstance(node, Function) and length(node) > FUNCTION_LINES:
            yield f"{node.lineno}: {node.name} has {length(node)} lines; {FUNCTION_LINES} at most"


def imports_inside_functions(tree: ast.Module) -> Iterator[str]:
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        for node in ast.walk(function):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = ["fyke" if node.level else node.module or ""]
            if any(name.partition(".")[0] == "fyke" for name in names):
                yield f"line {function.lineno}, {function.name}: {ast.unparse(node)}"


def test_no_module_is_too_long() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules()}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_no_class_or_function_is_too_long() -> None:
    assert [f"{name}:{what}" for name, tree in parsed() for what in too_long(tree)] == []


def test_file_names_say_what_is_inside() -> None:
    found = [name for top in ("src", "tests", "scripts", "bench") for name, _ in modules(ROOT / top)]
    assert [name for name in found if Path(name).stem.strip("_") in EMPTY_NAMES] == []


def test_module_names_use_the_words_of_the_glossary() -> None:
    words = {name: set(re.split(r"[/_.]", name.removeprefix("src/fyke/"))) for name, _ in modules()}
    assert {name: used & OTHER_WORDS for name, used in words.items() if used & OTHER_WORDS} == {}


def test_the_root_holds_the_layers_and_nothing_else() -> None:
    (contract,) = (c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    layers = set(re.findall(r"\w+", " ".join(contract["layers"])))
    found = {path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert found - layers == {"__init__", "__main__", "py"}


def test_every_folder_of_modules_is_a_package() -> None:
    # import-linter passes over a folder without __init__.py, and with it over its imports.
    folders = {path.parent for _, path in modules()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_only_the_composition_root_imports_from_the_package_inside_a_function() -> None:
    found = {name: list(imports_inside_functions(tree)) for name, tree in parsed()}
    assert {name: what for name, what in found.items() if what and not name.startswith("src/fyke/app/")} == {}


def test_the_measures_find_what_they_look_for() -> None:
    function = "def late():\n" + "    if True:\n        from fyke import ledgers\n" * 30
    assert list(too_long(ast.parse(function))) == ["1: late has 61 lines; 60 at most"]
    assert len(list(imports_inside_functions(ast.parse(function)))) == 30
    assert list(too_long(ast.parse("def fits():\n" + "    x = 1\n" * 59))) == []
    assert list(too_long(ast.parse("class Big:\n" + "    x = 1\n" * 250))) == [
        "1: class Big has 251 lines; 250 at most"
    ]
    assert list(too_long(ast.parse("class Fits:\n" + "    x = 1\n" * 249))) == []


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def test_every_pin_has_a_hash_and_no_pin_names_a_registry() -> None:
    for name in ("core.txt", "dev.txt"):
        text = (ROOT / "requirements" / name).read_text()
        assert "://" not in text
        assert "-index" not in text
        entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
        assert [entry.split()[0] for entry in entries if entry and "--hash=sha256:" not in entry] == []


def test_the_pins_hold_every_dependency_and_developers_have_what_users_have() -> None:
    core, dev = pins("core.txt"), pins("dev.txt")
    declared = [re.split(r"[^\w.-]", line)[0] for line in PROJECT["project"]["dependencies"]]
    assert [name for name in declared if re.sub(r"[._]", "-", name) not in core] == []
    assert {name: version for name, version in core.items() if dev.get(name) != version} == {}


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    files = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.*") if path.is_file()}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert sorted(name for name in files - inside if "__pycache__" not in name) == []
