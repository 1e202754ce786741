"""Statements for many rows at once, from the text for one row."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from operator import index

from msgspec import Struct

from fyke.db.dialect import LIST, POSTGRES_TYPES, shared
from fyke.db.tokens import Token, closing, find, is_name, is_param, join, params, read, split

_PLACE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\$(\d+)")
# A value, and a value of a number column.
PLAIN_VALUES = (["?"], ["number", "(", "?", ")"])


class Batch(Struct, frozen=True):
    """One statement over the columns of many rows: `LIST` stands where the arrays go.

    `unique` are the places of a row that no two rows may have in common; empty where it does not matter.
    """

    sql: str
    count: int
    unique: tuple[int, ...]


def batch_for_postgres(sql: str) -> Batch:
    """INSERT, UPDATE or DELETE over `unnest`, for rows of positional values.

    Raises:
        ValueError: the statement has another shape.
    """
    tokens = shared(sql, POSTGRES_TYPES)
    if any(t.text == "ANY" for t in tokens) or any(t.text[0] == ":" or t.text[1:].isdigit() for t in params(tokens)):
        raise ValueError(f"many rows take plain `?` only: {sql}")
    count = sum(1 for _ in params(tokens))
    columns = ", ".join(f"p{n}" for n in range(count))
    rows = read(f" unnest({LIST}) AS fyke_rows({columns})")
    kind = tokens[0].text.upper()
    if kind == "INSERT":
        return Batch(join(_from_rows(_insert(tokens, rows))), count, _conflict_places(tokens))
    where = find(tokens, "WHERE")
    if kind not in ("UPDATE", "DELETE") or where == len(tokens):
        raise ValueError(f"many rows take INSERT, UPDATE or DELETE with a WHERE: {sql}")
    source = [Token("FROM" if kind == "UPDATE" else "USING"), *rows]
    first = sum(1 for _ in params(tokens[:where]))
    return Batch(join(_from_rows([*tokens[:where], *source, *tokens[where:]])), count, tuple(range(first, count)))


def copied_columns(sql: str) -> tuple[str, tuple[str, ...]] | None:
    """Table and columns of an INSERT of nothing but values, which PostgreSQL's COPY can do; None for any other."""
    tokens = read(sql)
    if [t.text.upper() for t in tokens[:2]] != ["INSERT", "INTO"] or tokens[3].text != "(":
        return None
    names = closing(tokens, 3)
    values = names + 1
    if tokens[values].text.upper() != "VALUES" or closing(tokens, values + 1) != len(tokens) - 1:
        return None
    if any([t.text for t in part] not in PLAIN_VALUES for part in split(tokens[values + 2 : -1])):
        return None
    columns = tuple(part[0].text.strip('"') for part in split(tokens[4:names]))
    return tokens[2].text.strip('"'), columns


def together(statements: Sequence[tuple[str, int]]) -> str:
    """One statement that does what several do. Each is a text for PostgreSQL and the number of its values, which stand
    one after the other.

    PostgreSQL runs the last of such parts first, and all of them after the statement itself: so here they are turned
    round, and rows that many wait for are locked last when they stand last.
    """
    texts, first = [], 0
    for sql, count in statements:
        texts.append(_PLACE.sub(partial(_moved, first), sql))
        first += count
    others = ", ".join(f"part{number} AS ({texts[number]})" for number in range(len(texts) - 1, 0, -1))
    return f"WITH {others} {texts[0]}" if others else texts[0]


def _moved(by: int, found: re.Match[str]) -> str:
    return f"${int(found[1]) + by}" if found[1] else found[0]


def array_of_numbers(values: Collection[int | None]) -> str:
    """A text that PostgreSQL reads as an array. The driver would ask of each number whether it is an array itself."""
    return f"{{{','.join(['NULL' if value is None else str(index(value)) for value in values])}}}"


def _from_rows(tokens: Sequence[Token]) -> Iterator[Token]:
    place = 0
    for token in tokens:
        if is_param(token):
            yield Token(f"fyke_rows.p{place}", token.space)
            place += 1
        else:
            yield token


def _insert(tokens: list[Token], rows: list[Token]) -> list[Token]:
    values = find(tokens, "VALUES")
    if values < len(tokens):
        end = closing(tokens, values + 1)
        if any(params(tokens[end:])):
            raise ValueError(f"many rows take no value after VALUES (…): {join(tokens)}")
        row = [Token(tokens[values + 2].text), *tokens[values + 3 : end]]
        return [*tokens[:values], Token("SELECT"), *row, Token("FROM"), *rows, *tokens[end + 1 :]]
    source = find(tokens, "FROM")
    if source == len(tokens) or any(params(tokens[find(tokens, "CONFLICT") :])):
        raise ValueError(f"many rows take INSERT … VALUES or INSERT … SELECT … FROM: {join(tokens)}")
    return [*tokens[: source + 1], *rows, Token("CROSS"), Token("JOIN"), *tokens[source + 1 :]]


def _conflict_places(tokens: list[Token]) -> tuple[int, ...]:
    conflict, values = find(tokens, "CONFLICT"), find(tokens, "VALUES")
    if conflict == len(tokens) or values == len(tokens):
        return ()
    unique = {token.text.strip('"') for token in tokens[conflict + 2 : closing(tokens, conflict + 1)] if is_name(token)}
    names = [part[0].text.strip('"') for part in split(tokens[4 : closing(tokens, 3)])]
    place, found = 0, []
    for name, part in zip(names, split(tokens[values + 2 : closing(tokens, values + 1)]), strict=True):
        if name in unique and len(part) == 1 and is_param(part[0]):
            found.append(place)
        place += sum(1 for _ in params(part))
    return tuple(found)


def without(sql: str, places: Collection[int]) -> str:
    """The statement with NULL for the values at these places; plain `?` only."""
    seen = itertools.count()
    return join(
        Token("NULL", token.space) if is_param(token) and next(seen) in places else token for token in read(sql)
    )


def repeated_row(sql: str, count: int) -> str | None:
    """An INSERT … VALUES of so many rows; None where the statement is no such thing. For a text of `for_mysql`."""
    tokens = read(sql)
    values = find(tokens, "VALUES")
    if tokens[0].text.upper() != "INSERT" or values == len(tokens):
        return None
    end = closing(tokens, values + 1) + 1
    row = [Token("("), *tokens[values + 2 : end]]
    rows = [*row, *[token for _ in range(count - 1) for token in (Token(",", False), *row)]]
    return join([*tokens[: values + 1], *rows, *tokens[end:]])
