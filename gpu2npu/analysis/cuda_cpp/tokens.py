"""C++ source as a list of tokens: comments gone, string literals read. Nothing is preprocessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\((?P<body>.*?)\)(?P=delimiter)" )
  | (?P<string> (?:u8|[uUL])?"(?P<text>(?:\\.|[^"\\\n])*)" )
  | (?P<character> (?:u8|[uUL])?'(?:\\.|[^'\\\n])+' )
  | (?P<number> \.?\d(?:'?[\w.])* )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<sign> :: | -> | [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(\r?\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}


class Token(NamedTuple):
    """`kind` is "name", "sign", "string" (whose text is its value) or "other"."""

    kind: str
    text: str


def tokens(source: str) -> list[Token]:
    return [token for token, _ in _tokens(source)]


def token_lines(source: str) -> list[int]:
    """The line, from 1, in which each of the tokens begins."""
    lines, line, counted = [], 1, 0
    for _, offset in _tokens(source):
        line += source.count("\n", counted, offset)
        counted = offset
        lines.append(line)
    return lines


def _tokens(source: str) -> Iterator[tuple[Token, int]]:
    """Each token and where it begins."""
    for match in _TOKEN.finditer(source):
        if match["name"] is not None:
            yield Token("name", match["name"]), match.start()
        elif match["sign"] is not None:
            yield Token("sign", match["sign"]), match.start()
        elif match["raw"] is not None:
            yield Token("string", match["body"]), match.start()
        elif match["string"] is not None:
            yield Token("string", _ESCAPE.sub(_unescaped, match["text"])), match.start()
        elif match["comment"] is None:
            yield Token("other", match[0]), match.start()


def _unescaped(match: re.Match[str]) -> str:
    character = match[1]
    return "" if character.endswith("\n") else _ESCAPED.get(character, character)


def closing(sequence: list[Token], opening: int) -> int:
    """The index of the bracket that closes the one at `opening`, or the length if there is none."""
    left = sequence[opening].text
    right = _CLOSING[left]
    depth = 0
    for index in range(opening, len(sequence)):
        token = sequence[index]
        if token.kind == "sign":
            depth += (token.text == left) - (token.text == right)
            if depth == 0:
                return index
    return len(sequence)


def arguments(sequence: list[Token], opening: int) -> list[list[Token]]:
    """The arguments between the parenthesis at `opening` and its partner, split at the commas of that level."""
    end = closing(sequence, opening)
    found: list[list[Token]] = [[]]
    index = opening + 1
    while index < end:
        token = sequence[index]
        if token.kind == "sign" and token.text in _CLOSING:
            inner_end = closing(sequence, index)
            found[-1].extend(sequence[index : inner_end + 1])
            index = inner_end
        elif token == ("sign", ","):
            found.append([])
        else:
            found[-1].append(token)
        index += 1
    return found


def first_string(argument: list[Token]) -> str | None:
    """The first string literal of an argument, adjacent literals joined as the compiler joins them."""
    for index, token in enumerate(argument):
        if token.kind == "string":
            parts = []
            for following in argument[index:]:
                if following.kind != "string":
                    break
                parts.append(following.text)
            return "".join(parts)
    return None
