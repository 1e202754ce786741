"""Source files: read, merged over their profiles, compiled; each mistake with file, line, field and a way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fyke.errors import UsageError
from fyke.sources.compile import compile_source
from fyke.sources.faults import Fault
from fyke.sources.faults import Path as Place
from fyke.sources.python import classes_of, default_data
from fyke.sources.schema import check
from fyke.sources.secrets import Secrets
from fyke.sources.shapes import NO_EFFECT
from fyke.sources.source import FileSource
from fyke.sources.yamlfile import read_yaml

MOST_PROFILES: Final = 20
LONGEST_MESSAGE: Final = 400
SUFFIXES: Final = (".yaml", ".yml")
PROFILES: Final = "profiles"
REFERENCE: Final = "docs/reference/source-file.md"

# Mappings that are merged key by key; any other value of a file replaces its profile's.
_MERGED: Final = frozenset(
    {
        (),
        ("schedule",),
        ("fetch",),
        ("fetch", "headers"),
        ("fetch", "timeout"),
        ("fetch", "politeness"),
        ("fetch", "blocked"),
        ("listing",),
        ("listing", "fields"),
        ("identity",),
        ("detail",),
        ("updates",),
        ("checks",),
        ("checks", "coverage"),
        ("store",),
        ("alerts",),
    }
)


@dataclass(frozen=True)
class Loaded:
    """A source with the file it came from. `warnings` are for people, one line each."""

    source: FileSource
    warnings: list[str]
    path: Path


@dataclass
class _Merged:
    data: dict[str, Any]
    lines: dict[Place, tuple[str, int]] = field(default_factory=dict)


def load_file(path: Path | str, *, secrets: Secrets | None = None) -> Loaded:
    """The source of one YAML file.

    Raises:
        UsageError: the first mistake, with file, line, field and the nearest valid name.
    """
    path = Path(path)
    merged = _read(path, ())
    return _compiled(merged, path, secrets)


def load_folder(folder: Path | str, *, secrets: Secrets | None = None) -> list[Loaded]:
    """The sources of a folder, sorted by id: YAML files in it and below (not `profiles`), Python files with sources.

    Raises:
        UsageError: the first mistake of any file, or two files with one id.
    """
    loaded, faults = check_folder(folder, secrets=secrets)
    if faults:
        raise faults[0]
    return loaded


def check_folder(folder: Path | str, *, secrets: Secrets | None = None) -> tuple[list[Loaded], list[UsageError]]:
    """As `load_folder`, but with the first mistake of every file instead of raising one."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError("there is no such folder of sources", file=str(folder), hint="see the setting `sources`")
    found: dict[str, Loaded] = {}
    faults: list[UsageError] = []
    for path in sorted(_files(folder)):
        try:
            for loaded in _load(path, secrets):
                name = loaded.source.resolved.id
                if name in found:
                    raise UsageError(
                        f"the id '{name}' is also that of {found[name].path}",
                        file=str(path),
                        field="id",
                        hint="an id names one source",
                    )
                found[name] = loaded
        except UsageError as error:
            faults.append(error)
    return [found[name] for name in sorted(found)], faults


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).parts
        if inside[0] == PROFILES or any(part.startswith((".", "__")) for part in inside):
            continue
        # Python below the folder is taken for modules of steps.
        if path.suffix in SUFFIXES or (path.suffix == ".py" and len(inside) == 1):
            yield path


def _load(path: Path, secrets: Secrets | None) -> Iterator[Loaded]:
    if path.suffix in SUFFIXES:
        yield load_file(path, secrets=secrets)
        return
    for name, made in classes_of(path):
        data = {**made.settings, "source": f"{path.stem}:{name}"}
        yield _compiled(_Merged(data, {(): (str(path), made.line())}), path, secrets)


def _compiled(merged: _Merged, path: Path, secrets: Secrets | None) -> Loaded:
    folder = str(path.resolve().parent)
    try:
        data = default_data(merged.data, folder)
        source = compile_source(data, folder=folder, secrets=secrets)
        ignored = check(data, python="source" in data)
    except Fault as fault:
        raise _with_way_out(fault.located(str(path), merged.lines)) from fault
    except UsageError as error:
        if error.file is not None:
            raise
        found = UsageError(error.message, file=str(path), line=1, field=error.field, hint=error.hint)
        raise _with_way_out(found) from error
    warnings = [f"{path}: {NO_EFFECT}: {', '.join(ignored)}"] if ignored else []
    return Loaded(source, warnings, path)


def _with_way_out(error: UsageError) -> UsageError:
    """Every mistake names a field and what to do: where nothing better is known, where that is described."""
    field = error.field or "id"
    hint = error.hint or f"`{field.partition('.')[0].partition('[')[0]}` is described in {REFERENCE}"
    return UsageError(_one_line(error.message), file=error.file, line=error.line or 1, field=field, hint=hint)


def _one_line(message: str) -> str:
    """A value of the file that has breaks in it, or goes on for pages, is shown in one line."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in message)
    return (
        shown
        if len(shown) <= LONGEST_MESSAGE
        else f"{shown[: LONGEST_MESSAGE // 2]} … {shown[-LONGEST_MESSAGE // 2 :]}"
    )


def _read(path: Path, above: tuple[Path, ...]) -> _Merged:
    """A file merged over its profiles; a later profile wins over an earlier one, the file over all."""
    data, lines = read_yaml(path)
    merged = _Merged({}, {})
    named = data.get("extends", [])
    for at, name in enumerate(named if isinstance(named, list) else [named]):
        file, line = lines.get(("extends", at), lines.get(("extends",), (str(path), 1)))
        if not isinstance(name, str) or not name:
            raise UsageError("names no profile", file=file, line=line, field="extends", hint="write profiles/NAME")
        profile = _profile(path, name)
        if profile is None:
            raise UsageError(
                f"there is no profile '{name}'",
                file=file,
                line=line,
                field="extends",
                hint=f"a profile is a file beside this one: {path.parent / name}.yaml",
            )
        if profile.resolve() in above or profile.resolve() == path.resolve() or len(above) >= MOST_PROFILES:
            raise UsageError("profiles extend each other in a circle", file=file, line=line, field="extends")
        _merge(merged, _read(profile, (*above, path.resolve())))
    _merge(merged, _Merged(data, lines))
    return merged


def _profile(path: Path, name: str) -> Path | None:
    """`profiles/cn-gov` beside the file, or beside a folder above it, so that files in folders share profiles."""
    for folder in [path.parent, *list(path.resolve().parents)[1:4]]:
        for suffix in ("", *SUFFIXES):
            found = folder / f"{name}{suffix}"
            if found.is_file():
                return found
    return None


def _merge(below: _Merged, above: _Merged) -> None:
    below.data = _over(below.data, above.data, ())
    for place, line in above.lines.items():
        below.lines[place] = line


def _over(below: Mapping[str, Any], above: Mapping[str, Any], path: Place) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        deep = (*path, name) in _MERGED and isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = _over(old, value, (*path, name)) if deep and isinstance(old, Mapping) else value
    return merged
