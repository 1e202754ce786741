"""Rewrites the SQL that all three databases share, text by text; pure functions, their callers remember the results.

It is written as SQLite takes it, in the subset that the other two know in some form: `?`, `?1` and `:name`; lists as
`x [NOT] IN (SELECT value FROM json_each(?))`; locks (`FOR UPDATE [SKIP LOCKED]`) last; `ON CONFLICT(…) DO UPDATE`;
greatest and least without NULL; `number(?)` where a number must keep all its digits. What is outside it raises
ValueError at its first use on a server, naming the piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from fyke.db.tokens import Token, closing, find, is_name, is_param, join, matches, read, split

TEXTS_REMEMBERED = 2_048
LIST = "\0"  # where MariaDB's list of placeholders goes, one for each value

_LOCK = re.compile(r"\s+FOR\s+UPDATE(\s+SKIP\s+LOCKED)?\s*$")
_SQLITE_WORDS = {
    "greatest(": "max(",
    "least(": "min(",
    "IS NOT DISTINCT FROM": "IS",
    "IS DISTINCT FROM": "IS NOT",
    "number(?)": "?",
}
_SQLITE_PIECE = re.compile(r"\bnumber\(\?\)|\bgreatest\(|\bleast\(|\bIS NOT DISTINCT FROM\b|\bIS DISTINCT FROM\b")

_FOREIGN_CALLS = frozenset(
    {
        *("IIF", "IFNULL", "TOTAL", "GROUP_CONCAT", "LAST_INSERT_ROWID", "CHANGES", "PRINTF", "FORMAT", "TYPEOF"),
        *("STRFTIME", "DATETIME", "DATE", "TIME", "JULIANDAY", "UNIXEPOCH", "INSTR", "UNICODE", "QUOTE", "HEX"),
    }
)
_FOREIGN_WORDS = frozenset({"GLOB", "ROWID", "RETURNING", "REGEXP", "LIKE", "FILTER", "NULLS", "PRAGMA", "MATCH"})
_FOREIGN_SIGNS = {"||": "concatenate in Python", "==": "write =", "::": "write CAST", "->": "", "->>": ""}
POSTGRES_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
_MYSQL_TYPES = {"INTEGER": "SIGNED", "BIGINT": "SIGNED", "TEXT": "CHAR", "REAL": "DOUBLE", "BLOB": "BINARY"}
# Names of our columns and tables that are words of MariaDB or MySQL; written small, as names are.
_MYSQL_RESERVED = frozenset(
    {"delayed", "key", "keys", "rank", "values", "read", "groups", "lead", "lag", "row", "rows", "system"}
)


class Text(Struct, frozen=True):
    """A text for a driver. `keys` says which of the caller's values stands at each of its places, `lists` which of
    them is a list."""

    sql: str
    keys: tuple[int | str, ...]
    lists: frozenset[int]
    plain: bool  # the values can be handed on as they are
    numbers: frozenset[int] = frozenset()  # which of them are marked `number(?)`


def for_sqlite(sql: str) -> str:
    """The text without its lock, and with SQLite's names of greatest and least."""
    return _SQLITE_PIECE.sub(lambda found: _SQLITE_WORDS[found.group()], _LOCK.sub("", sql))


def for_postgres(sql: str) -> Text:
    return _numbered(shared(sql, POSTGRES_TYPES))


def for_mysql(sql: str) -> Text:
    """With `?` for each value, repeated where it is repeated, and `LIST` for each list."""
    tokens = shared(sql, _MYSQL_TYPES)
    _refuse_late_reads(tokens)
    text = _placed(list(_mysql_words(_duplicate_key(tokens))))
    return msgspec.structs.replace(text, numbers=_number_places(read(sql)))


# --- What both servers share ---


def shared(sql: str, types: dict[str, str]) -> list[Token]:
    tokens = list(_hints_dropped(list(_marks_dropped(read(sql)))))
    tokens = list(_lists(tokens))
    _refuse_foreign(tokens, sql)
    tokens = [
        Token(types.get(t.text.upper(), t.text), t.space) if _is_cast_type(tokens, at) else t
        for at, t in enumerate(tokens)
    ]
    return _qualified(tokens)


def _is_cast_type(tokens: Sequence[Token], at: int) -> bool:
    return matches(tokens, at - 1, f"AS {tokens[at].text.upper()} )") if at else False


def _hints_dropped(tokens: list[Token]) -> Iterator[Token]:
    at = 0
    while at < len(tokens):
        if matches(tokens, at, "INDEXED BY"):
            at += 3
        elif matches(tokens, at, "NOT INDEXED"):
            at += 2
        else:
            if not (matches(tokens, at, "CROSS JOIN") and _has_on(tokens, at + 2)):
                yield tokens[at]
            at += 1


def _marks_dropped(tokens: list[Token]) -> Iterator[Token]:
    at = 0
    while at < len(tokens):
        if matches(tokens, at, "NUMBER ( ? )"):
            yield Token(tokens[at + 2].text, tokens[at].space)
            at += 4
        else:
            yield tokens[at]
            at += 1


def _has_on(tokens: list[Token], at: int) -> bool:
    """Whether the joined table that begins here has a condition."""
    at = closing(tokens, at) + 1 if tokens[at].text == "(" else at + 1
    while at < len(tokens) and is_name(tokens[at]):
        word = tokens[at].text.upper()
        if word == "ON":
            return True
        if word in ("WHERE", "JOIN", "CROSS", "LEFT", "ORDER", "GROUP", "LIMIT", "UNION"):
            return False
        at += 1
    return False


def _lists(tokens: list[Token]) -> Iterator[Token]:
    at = 0
    while at < len(tokens):
        negated = matches(tokens, at, "NOT IN")
        if matches(tokens, at + negated, "IN ( SELECT VALUE FROM JSON_EACH ( ? ) )"):
            yield Token("<>" if negated else "=")
            yield Token("ALL" if negated else "ANY")
            yield Token("(", False)
            yield Token(tokens[at + negated + 7].text, False)
            yield Token(")", False)
            at += 10 + negated
        else:
            yield tokens[at]
            at += 1


def _refuse_foreign(tokens: list[Token], sql: str) -> None:
    for at, token in enumerate(tokens):
        word = token.text.upper()
        called = at + 1 < len(tokens) and tokens[at + 1].text == "("
        why = None
        if token.text in _FOREIGN_SIGNS:
            why = _FOREIGN_SIGNS[token.text]
        elif word in _FOREIGN_WORDS or word.startswith(("SQLITE_", "JSON_")) or (called and word in _FOREIGN_CALLS):
            why = ""
        elif word in ("MAX", "MIN") and called and len(split(tokens[at + 2 : closing(tokens, at + 1)])) > 1:
            why = "of several values: write greatest or least"
        elif word == "IS" and not any(
            matches(tokens, at + 1, allowed) for allowed in ("NULL", "NOT NULL", "NOT DISTINCT FROM", "DISTINCT FROM")
        ):
            why = "of a value: write IS NOT DISTINCT FROM"
        elif word == "OR" and tokens[at - 1].text.upper() in ("INSERT", "UPDATE"):
            why = "after INSERT or UPDATE"
        if why is not None:
            raise ValueError(f"not every database knows {token.text}{f' ({why})' if why else ''}: {sql}")
    if tokens[0].text.upper() == "UPDATE" and find(tokens, "FROM") < len(tokens):
        raise ValueError(f"not every database knows UPDATE … FROM: {sql}")


def _qualified(tokens: list[Token]) -> list[Token]:
    """In what a conflict sets, a name alone is the row that is there: PostgreSQL wants that said."""
    start = find(tokens, "CONFLICT")
    begin = find(tokens, "SET", start)
    if begin == len(tokens):
        return tokens
    table = tokens[2].text
    names = {name.text for name in tokens[4 : closing(tokens, 3)] if is_name(name)} if tokens[3].text == "(" else set()
    done = tokens[: begin + 1]
    for part in split(tokens[begin + 1 :]):
        for at, token in enumerate(part):
            alone = at > 1 and token.text in names and part[at - 1].text != "."
            if alone and not (at + 1 < len(part) and part[at + 1].text in (".", "(")):
                done += [Token(table, token.space), Token(".", False), Token(token.text, False)]
            else:
                done.append(token)
        done.append(Token(",", False))
    return done[:-1]


# --- PostgreSQL ---


def _numbered(tokens: list[Token]) -> Text:
    keys: list[int | str] = []
    lists: set[int] = set()
    done: list[Token] = []
    plain = True
    for at, token in enumerate(tokens):
        if not is_param(token):
            done.append(token)
            continue
        key = _key(token, len(keys))
        plain = plain and token.text == "?"
        if key not in keys:
            keys.append(key)
        place = keys.index(key)
        if tokens[at - 2].text in ("ANY", "ALL"):
            lists.add(place)
        done.append(Token(f"${place + 1}", token.space))
    return Text(join(done), tuple(keys), frozenset(lists), plain and not lists)


def _key(token: Token, seen: int) -> int | str:
    if token.text == "?":
        return seen
    return int(token.text[1:]) - 1 if token.text[0] == "?" else token.text[1:]


# --- MariaDB and MySQL ---


def _number_places(tokens: list[Token]) -> frozenset[int]:
    places = [at for at, token in enumerate(tokens) if is_param(token)]
    return frozenset(n for n, at in enumerate(places) if at > 1 and matches(tokens, at - 2, "NUMBER ( ? )"))


def _assignments(tokens: list[Token]) -> list[list[Token]]:
    kind, first = tokens[0].text.upper(), find(tokens, "CONFLICT")
    if kind != "UPDATE" and first == len(tokens):
        return []
    start = find(tokens, "SET", 0 if kind == "UPDATE" else first)
    return split(tokens[start + 1 : find(tokens, "WHERE", start)]) if start < len(tokens) else []


def _refuse_late_reads(tokens: list[Token]) -> None:
    """MariaDB sets from left to right, and what is read later is the new value already."""
    owner = tokens[1 if tokens[0].text.upper() == "UPDATE" else 2].text if len(tokens) > 2 else ""
    changed: set[str] = set()
    for part in _assignments(tokens):
        for at in range(2, len(part)):
            if part[at].text not in changed or (at + 1 < len(part) and part[at + 1].text in (".", "(")):
                continue
            if part[at - 1].text != "." or part[at - 2].text == owner:
                raise ValueError(
                    f"MariaDB sets from left to right: {part[0].text} must stand before {part[at].text},"
                    f" which it reads: {join(tokens)}"
                )
        changed.add(part[0].text)


def _duplicate_key(tokens: list[Token]) -> list[Token]:
    conflict = find(tokens, "CONFLICT")
    if conflict == len(tokens):
        return tokens
    if find(tokens, "WHERE", conflict) < len(tokens):
        raise ValueError(f"not every database knows ON CONFLICT … WHERE: {join(tokens)}")
    action = closing(tokens, conflict + 1) + 1
    done = [*tokens[:conflict], Token("DUPLICATE"), Token("KEY"), Token("UPDATE")]
    if matches(tokens, action, "DO NOTHING"):
        same = tokens[conflict + 2].text
        return [*done, Token(same), Token("="), Token(tokens[2].text), Token(".", False), Token(same, False)]
    at = action + 3
    while at < len(tokens):
        if tokens[at].text.lower() == "excluded":
            name = tokens[at + 2].text
            done += [Token("VALUES", tokens[at].space), Token("(", False), Token(name, False), Token(")", False)]
            at += 3
        else:
            done.append(tokens[at])
            at += 1
    return done


def _mysql_words(tokens: list[Token]) -> Iterator[Token]:
    at = 0
    while at < len(tokens):
        text, space = tokens[at]
        if matches(tokens, at, "IS NOT DISTINCT FROM"):
            yield Token("<=>")
            at += 3
        elif matches(tokens, at, "IS DISTINCT FROM"):
            raise ValueError(f"MariaDB does not know IS DISTINCT FROM (write NOT (… IS NOT …)): {join(tokens)}")
        elif text in _MYSQL_RESERVED:
            yield Token(f"`{text}`", space)
        elif text[0] == '"':
            yield Token("`" + text[1:-1].replace('""', '"').replace("`", "``") + "`", space)
        elif text.upper() == "LENGTH" and matches(tokens, at + 1, "("):
            yield Token("char_length", space)
        elif text == "/":
            yield Token("DIV", True)
        else:
            yield tokens[at]
        at += 1


def _placed(tokens: list[Token]) -> Text:
    keys: list[int | str] = []
    lists: set[int] = set()
    done: list[Token] = []
    at = 0
    while at < len(tokens):
        listing = matches(tokens, at, "= ANY ( ? )") or matches(tokens, at, "<> ALL ( ? )")
        if listing:
            done += [Token("IN" if tokens[at].text == "=" else "NOT IN"), Token("(")]
            lists.add(len(keys))
            at += 3
        token = tokens[at]
        if is_param(token):
            keys.append(_key(token, len(keys)))
            done.append(Token(LIST if listing else "?", token.space))
        else:
            done.append(token)
        at += 1
    return Text(join(done), tuple(keys), frozenset(lists), keys == list(range(len(keys))) and not lists)
