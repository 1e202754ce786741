"""Errors of asyncpg and asyncmy by their codes, SQLSTATE and errno, sorted by what is to be done about them.

The drivers are not imported here: whoever has none of them has none of their errors.
"""

from __future__ import annotations

import re
from enum import Enum

from fyke.db.address import Address
from fyke.db.names import CORE_TABLES, CORE_UNIQUE
from fyke.errors import FykeError, TransientError, UsageError


class Kind(Enum):
    """What an error asks for."""

    AGAIN = "the whole transaction, soon"
    LOST = "another connection"
    LATER = "time"
    PERSON = "a person"
    ROW = "another value"
    OTHER = "a change of the program"


_STATES_AGAIN = {"40P01", "40001", "55P03"}
_STATES_LOST = {"57P01", "57P02", "57P05", "25P03"}
_STATES_LATER = {"57014", "57P03", "25006", "55000", "55006", "58030"}
_STATES_PERSON = {"28P01", "28000", "3D000", "42501", "3F000"}
_STATES_ROW = {"54000"}
_NUMBERS_AGAIN = {1213, 1205, 1020, 1615}
# 0: asyncmy's own, for a connection that is closed.
_NUMBERS_LOST = {0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2003, 2006, 2013, 2014, 2055, 4031}
_NUMBERS_LATER = {3, 28, 1021, 1037, 1038, 1040, 1041, 1114, 1203, 1226, 1290, 1317, 1461, 1792, 1836, 1969, 3024, 1030}
_NUMBERS_PERSON = {1044, 1045, 1049, 1142, 1143, 1227, 1698, 1130, 1251}
_NUMBERS_ROW = {1048, 1118, 1153, 1264, 1265, 1292, 1300, 1364, 1366, 1367, 1406, 1411, 1452, 1690, 3140, 3819, 4025}
_DUPLICATE, _UNIQUE = 1062, "23505"
# What uvloop and asyncmy say of a connection that was reset a moment ago, or while it was opened.
_RESET = ("handler is closed", "does not expose socket instance")
LONGEST_MESSAGE = 300
# Where messages quote what was in the row; names of columns and constraints stay.
_QUOTES = (
    (re.compile(r"^((?:invalid (?:input )?\w+|date/time field value|interval field value)[^:\"]*): .*$"), r"\1"),
    (re.compile(r"^value \".*\" is "), "the value is "),
    (re.compile(r"\b(value|entry):? '.*'(?= for (?:column|key)\b)"), r"\1"),
    (re.compile(r"\bvalue:? '.*'$"), "value"),
    (re.compile(r" at row \d+$"), ""),
)
_KEY_NAME = re.compile(r"for key '(?:[^']*\.)?([^'.]+)'\s*$")

_ADVICE_LATER = {
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "53300": "it has no connection left",
    "57P03": "it is starting up or shutting down",
    "57014": "a statement took too long",
    "25006": "it takes no writes now",
    "1021": "its disk is full",
    "1114": "its disk is full",
    "1040": "it has no connection left",
    "1203": "it has no connection left",
    "1290": "it takes no writes now",
    "1836": "it takes no writes now",
    "1969": "a statement took too long",
    "3024": "a statement took too long",
}


def code_of(error: BaseException) -> str:
    """SQLSTATE of PostgreSQL, errno of MariaDB; "" for anything else."""
    driver = type(error).__module__.partition(".")[0]
    if driver == "asyncpg":
        return str(getattr(error, "sqlstate", None) or "")
    if driver == "asyncmy" and error.args:
        return str(error.args[0])
    return ""


def said(error: BaseException) -> str:
    """The message of a server or a driver in one line, without its details, which quote rows and statements."""
    # asyncpg's text goes on with DETAIL and HINT, asyncmy's arguments begin with the number.
    text = str(error.args[-1]) if code_of(error) and error.args else str(error)
    return " ".join(text.split())


def server_row_message(error: BaseException) -> str:
    """Why a server or its driver refused a row: message, code, column or constraint; "" for any other error."""
    code = code_of(error)
    if not code:
        return ""
    text = said(error)
    for pattern, kept in _QUOTES:
        text = pattern.sub(kept, text)
    for part in ("column_name", "constraint_name"):
        name = getattr(error, part, None)
        if name and f'"{name}"' not in text:
            text += f", {part.partition('_')[0]} {name}"
    return f"{text[:LONGEST_MESSAGE]} ({'error' if code.isdigit() and len(code) < 5 else 'SQLSTATE'} {code})"


def kind_of(error: BaseException) -> Kind | None:
    """None for what no server and no network has said."""
    if isinstance(error, FykeError):
        return None
    if isinstance(error, OSError | EOFError) or (isinstance(error, RuntimeError) and _is_reset(str(error))):
        return Kind.LOST
    driver, code = type(error).__module__.partition(".")[0], code_of(error)
    if driver == "asyncpg":
        return _of_state(error, code)
    if driver == "asyncmy":
        return _of_number(error, int(code) if code.isdigit() else -1)
    return None


def _is_reset(text: str) -> bool:
    return any(mark in text for mark in _RESET)


def _of_state(error: BaseException, state: str) -> Kind:
    name = type(error).__name__
    if name == "InvalidCachedStatementError" or state in _STATES_AGAIN:
        return Kind.AGAIN
    if state == _UNIQUE:
        return Kind.AGAIN if getattr(error, "table_name", None) in CORE_TABLES else Kind.ROW
    if state[:2] == "08" or state in _STATES_LOST:
        return Kind.LOST
    if state[:2] == "53" or state in _STATES_LATER:
        return Kind.LATER
    if state in _STATES_PERSON:
        return Kind.PERSON
    if state[:2] in ("22", "23") or state in _STATES_ROW:
        return Kind.ROW
    # Without a state it is the driver's own: a closed connection, or one whose protocol is out of step.
    return Kind.LOST if (not state and "closed" in str(error)) or name == "InternalClientError" else Kind.OTHER


def _of_number(error: BaseException, number: int) -> Kind:
    if number == _DUPLICATE:
        found = _KEY_NAME.search(str(error.args[1]) if len(error.args) > 1 else "")
        return Kind.AGAIN if found is not None and found[1] in CORE_UNIQUE else Kind.ROW
    for numbers, kind in (
        (_NUMBERS_AGAIN, Kind.AGAIN),
        (_NUMBERS_LOST, Kind.LOST),
        (_NUMBERS_LATER, Kind.LATER),
        (_NUMBERS_PERSON, Kind.PERSON),
        (_NUMBERS_ROW, Kind.ROW),
    ):
        if number in numbers:
            return kind
    return Kind.ROW if str(getattr(error, "sqlstate", None) or "")[:2] == "22" else Kind.OTHER


def translate_server(error: BaseException, address: Address) -> BaseException:
    """TransientError for what passes, UsageError for what a person must change; row errors and our own as they are."""
    kind = kind_of(error)
    if kind is None or kind in (Kind.ROW, Kind.OTHER):
        return error
    text, code = address.hide(said(error)), code_of(error)
    found: FykeError
    if kind is Kind.PERSON:
        found = UsageError(f"{address} refuses: {text}", hint=_advice(code, address))
    elif kind is Kind.LOST:
        found = TransientError(f"{address} cannot be reached: {text or type(error).__name__}")
    elif kind is Kind.AGAIN:
        found = TransientError(f"{address}: other writers were in the way each time: {text}")
    else:
        found = TransientError(f"{address}: {_ADVICE_LATER.get(code, 'not available now')} ({text})")
    return found


def _advice(code: str, address: Address) -> str:
    who = f"user '{address.user}'"
    if code in ("28P01", "28000", "1045", "1698", "1130", "1251"):
        return f"set the right password for {who} in the ledger's address, and let it in from this host"
    if code in ("3D000", "1049"):
        return f"make the database: CREATE DATABASE {address.database}"
    return f"give {who} all rights on database '{address.database}', also to make tables"
