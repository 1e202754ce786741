"""Drivers' errors, mapped by code, not by class, onto the three kinds that callers tell apart: here SQLite's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from fyke.db.connection import RepeatTransaction
from fyke.db.server_errors import LONGEST_MESSAGE, Kind, kind_of, server_row_message
from fyke.errors import FykeError, TransientError, UsageError

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PASSING = _BUSY | {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_ROW = {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE}
_ADVICE = {
    sqlite3.SQLITE_BUSY: "another program holds the file locked",
    sqlite3.SQLITE_LOCKED: "another connection holds the table locked",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed",
}


def _code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether repeating the whole transaction soon may succeed."""
    return _code(error) in _BUSY or isinstance(error, RepeatTransaction) or kind_of(error) is Kind.AGAIN


def is_lost(error: BaseException) -> bool:
    """Whether the server or the connection to it is gone, so that another connection is needed."""
    return kind_of(error) is Kind.LOST


def translate(error: BaseException, path: Path | None = None) -> BaseException:
    """TransientError for what passes, UsageError for a damaged file; our own and row errors as they are."""
    if isinstance(error, RepeatTransaction):
        return TransientError(f"raced with other writers: {error}")
    code = _code(error)
    if code in _DAMAGED:
        file = path or "FILE"
        damaged = UsageError(
            f"the ledger{f' {path}' if path else ''} is damaged: {error}",
            hint=f"stop all that use it, keep a copy, and put a backup in its place;"
            f" without one: `sqlite3 {file} .recover | sqlite3 NEW.db`, then `fyke --ledger sqlite:///NEW.db audit`",
        )
        damaged.__cause__ = error
        return damaged
    if isinstance(error, FykeError) or code not in _PASSING:
        return error
    assert code is not None
    found = TransientError(f"SQLite: {_ADVICE.get(code, 'not available now')} ({error})")
    found.__cause__ = error
    return found


def is_row_error(error: BaseException) -> bool:
    """Whether the database refused what is in a row, so that repeating brings nothing and its neighbours may pass."""
    if isinstance(error, OverflowError | UnicodeEncodeError | ValueError) or _code(error) in _ROW:
        return True
    return kind_of(error) is Kind.ROW


def row_message(error: BaseException) -> str:
    """What the database said of a row that it refused: one line, with the error's code, without what is in the row."""
    return server_row_message(error) or " ".join(str(error).split())[:LONGEST_MESSAGE]
