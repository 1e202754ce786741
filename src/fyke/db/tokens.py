"""SQL as a row of words and signs, so far as `db.dialect` must understand it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(\s*)(
      '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
      | \?\d* | :[A-Za-z_]\w* | [A-Za-z_]\w* | \d+(?:\.\d+)? | <> | <= | >= | != | == | \|\| | :: | ->> | -> | \S
    )""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A word, a sign, a literal or a parameter."""

    text: str
    space: bool = True  # before it


def read(sql: str) -> list[Token]:
    found = [Token(text, bool(space)) for space, text in _TOKEN.findall(sql)]
    return [token for token in found if not token.text.startswith(("--", "/*"))]


def join(tokens: Iterable[Token]) -> str:
    return "".join(f" {token.text}" if token.space else token.text for token in tokens).strip()


def is_param(token: Token) -> bool:
    return token.text[0] == "?" or (token.text[0] == ":" and len(token.text) > 1 and token.text != "::")


def params(tokens: Sequence[Token]) -> Iterator[Token]:
    return (token for token in tokens if is_param(token))


def is_name(token: Token) -> bool:
    return token.text[0].isalpha() or token.text[0] in '_"'


def matches(tokens: Sequence[Token], at: int, words: str) -> bool:
    wanted = words.split()
    found = tokens[at : at + len(wanted)]
    return len(found) == len(wanted) and all(
        is_param(token) if word == "?" else token.text.upper() == word
        for token, word in zip(found, wanted, strict=True)
    )


def find(tokens: Sequence[Token], word: str, start: int = 0) -> int:
    """Where `word` stands outside of parentheses, from `start`; the end if nowhere."""
    depth = 0
    for at in range(start, len(tokens)):
        text = tokens[at].text
        if depth == 0 and text.upper() == word:
            return at
        depth += (text == "(") - (text == ")")
    return len(tokens)


def closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if depth == 0:
            return at
    raise ValueError(f"a ( without its ): {join(tokens)}")


def split(tokens: Sequence[Token], word: str = ",") -> list[list[Token]]:
    """The parts between commas that stand outside of parentheses."""
    parts: list[list[Token]] = []
    start = 0
    while start <= len(tokens):
        end = find(tokens, word, start)
        parts.append(list(tokens[start:end]))
        start = end + 1
    return parts
