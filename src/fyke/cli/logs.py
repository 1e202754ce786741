"""Log lines of a process that collects: time, level, text, on stderr; above the live table where there is one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import typer

from fyke.cli.output import plain
from fyke.settings import Settings, hidden


class LineHandler(logging.Handler):
    """Writes each record as one line through `write`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write
        # UTC, so that lines of several hosts can be sorted together.
        formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S")
        formatter.converter = time.gmtime
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lines = self.format(record).splitlines()
            for line in lines:
                self._write(plain(line))
        except Exception:  # noqa: BLE001 - a log line that cannot be written must not end the work
            self.handleError(record)


def start_logging(settings: Settings, write: Callable[[str], None] | None = None) -> None:
    """Send our log lines from `log.level` on to `write` (default: stderr), and other libraries' warnings too.

    Secrets of the settings are masked in whatever is logged.
    """
    _handle(settings, write, logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("fyke").setLevel(settings.log.level.upper())


def warn_in_lines(settings: Settings) -> None:
    """Give what a command that only asks has to warn of the form of all log lines; the rest is not written."""
    _handle(settings, None, logging.WARNING)


def _handle(settings: Settings, write: Callable[[str], None] | None, least: int) -> None:
    out = write or (lambda line: typer.echo(line, err=True))
    handler = LineHandler(lambda line: out(hidden(settings, line)))
    handler.setLevel(least)
    root = logging.getLogger()
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, LineHandler)] + [handler]
