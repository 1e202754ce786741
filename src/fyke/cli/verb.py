"""What every verb has: the settings and their flags, an event loop, an exit code, an example in its help."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from fyke.cli.flags import APP, FLAGS, Ledger, Sources, Values, Verbs, remember
from fyke.cli.logs import warn_in_lines
from fyke.cli.title import hide_in_title
from fyke.errors import FykeError, TransientError, UsageError
from fyke.settings import Loaded, all_settings, hidden, load_settings, secrets_of

_OWN_OPTIONS: Final = {"flag_ledger": Ledger, "flag_sources": Sources, "flag_set": Values}
_OPTIONS_LAST: Final = inspect.Parameter.KEYWORD_ONLY

Function = TypeVar("Function", bound=Callable[..., Any])


def one_verb() -> typer.Typer:
    """An app for a verb without verbs below it."""
    return typer.Typer(**APP)


def group(text: str, *, example: str = "") -> typer.Typer:
    """An app for a verb with verbs below it. `default_verb` gives it an action, and an example, of its own."""
    app = typer.Typer(**APP, cls=Verbs, no_args_is_help=True, help=text)
    app.callback(epilog=f"Example: {example}" if example else None)(lambda: None)
    return app


def verb(app: typer.Typer, name: str | None = None, *, example: str) -> Callable[[Function], Function]:
    """Make a function a verb. A first parameter `loaded` is filled with the settings; a returned number is the exit
    code.
    """

    def decorate(function: Function) -> Function:
        command = app.command(name, help=inspect.getdoc(function), epilog=f"Example: {example}")
        command(_called(function, as_default=False))
        return function

    return decorate


def default_verb(app: typer.Typer, *, example: str) -> Callable[[Function], Function]:
    """Make a function what a group does when no verb of it is named."""

    def decorate(function: Function) -> Function:
        callback = app.callback(
            invoke_without_command=True,
            no_args_is_help=False,
            help=inspect.getdoc(function),
            epilog=f"Example: {example}",
        )
        callback(_called(function, as_default=True))
        return function

    return decorate


def with_flags(loaded: Loaded, flags: Mapping[str, str | None], options: Mapping[str, str]) -> Loaded:
    """The settings with some more flags, those of a verb's own `options`, by setting; None where one was not given.

    Raises:
        UsageError: a bad value; it names the option that the person wrote.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return load_settings(Path.cwd(), os.environ, loaded.flags | given) if given else loaded
    except UsageError as error:
        name = (error.field or "").removeprefix("--set ")
        if name not in given:
            raise
        raise UsageError(error.message, field=options[name], hint=error.hint) from error


def _hide_flags(loaded: Loaded) -> None:
    given = [each for each in all_settings() if each.secret and each.name in loaded.flags]
    if given:
        hide_in_title([secret for each in given for secret in secrets_of(loaded.flags[each.name])])


def _without_secrets(loaded: Loaded, error: Exception) -> Exception | None:
    """The error with its secrets masked, for drivers like to quote what they were given; None where it has none."""
    text = " ".join(f"{error}".split())
    safe = hidden(loaded.settings, text)
    if safe == text:
        return None
    kinds = (UsageError, TransientError, FykeError)
    return next((kind(safe) for kind in kinds if isinstance(error, kind)), FykeError(f"{type(error).__name__}: {safe}"))


def _called(function: Callable[..., Any], *, as_default: bool) -> Callable[..., None]:
    """The function as typer calls it: with a context and the options of the settings, inside an event loop."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    wants_settings = bool(parameters) and parameters[0].annotation is Loaded

    def call(context: typer.Context, **given: Any) -> None:
        if wants_settings:
            remember(context, *(given.pop(name) for name in _OWN_OPTIONS))
        if as_default and context.invoked_subcommand is not None:
            return
        loaded = [load_settings(Path.cwd(), os.environ, context.meta.get(FLAGS))] if wants_settings else []
        if loaded:
            _hide_flags(loaded[0])
            warn_in_lines(loaded[0].settings)
        try:
            answer = function(*loaded, **given)
            code = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
        except Exception as error:
            if not loaded or (safe := _without_secrets(loaded[0], error)) is None:
                raise
            raise safe from None
        if code:
            raise typer.Exit(code)

    shown = [each.replace(kind=_OPTIONS_LAST) for each in (parameters[1:] if wants_settings else parameters)]
    if wants_settings:
        shown += [
            inspect.Parameter(name, _OPTIONS_LAST, default=None, annotation=annotation)
            for name, annotation in _OWN_OPTIONS.items()
        ]
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    call.__signature__ = inspect.Signature([first, *shown])  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call
