"""String literals as they are written: prefixes, quotes, implicit concatenation, and the parts of f-strings.

`ast` gives one node for `"a" f"{b}"` and no place for the text inside an f-string; Python's own tokenizer separates
them only from 3.12 on. This reads them on every version by one grammar, that of 3.12, of which the older is a part.
"""

from __future__ import annotations

import re

from msgspec import Struct

_OPENING = re.compile(r"(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|'''|\"|')")
# White space, comments and joined lines between literals, and the parentheses that may be around some of them.
_BETWEEN = re.compile(r"(?:[ \t\f\r\n()]|\\\r?\n|#[^\r\n]*)+")
_STRING_IN_CODE = re.compile(r"(?<![\w])[A-Za-z]{0,2}(?:\"|')|\"|'")
# What is between the quotes of a plain literal.
_INSIDE = {
    "'": re.compile(r"(?:[^'\\]+|\\.)*", re.DOTALL),
    '"': re.compile(r'(?:[^"\\]+|\\.)*', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]+|\\.|'(?!''))*", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]+|\\.|"(?!""))*', re.DOTALL),
}
# Text of an f-string in which nothing ends or begins, and names in its code.
_PLAIN = re.compile(r"[^{}\\'\"]+")
_NAME = re.compile(r"\w+")
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


class LiteralPart(Struct, frozen=True):
    """A piece of an f-string's inside: text, or with `is_code` an expression, the braces and what follows it (a
    conversion, a format) not counted. `format` are the parts of the format behind the colon."""

    start: int
    end: int
    is_code: bool
    format: tuple[LiteralPart, ...] = ()


class Literal(Struct, frozen=True):
    """One string literal between the offsets `start` and `end`; its inside is between `inner` and `inner_end`.

    `parts` are those of an f-string, empty for any other.
    """

    start: int
    end: int
    prefix: str
    quote: str
    parts: tuple[LiteralPart, ...] = ()

    @property
    def inner(self) -> int:
        return self.start + len(self.prefix) + len(self.quote)

    @property
    def inner_end(self) -> int:
        return self.end - len(self.quote)

    @property
    def is_formatted(self) -> bool:
        return "f" in self.prefix.lower() or "t" in self.prefix.lower()


class LiteralError(ValueError):
    """The text between two offsets is not a row of string literals."""


def literals(text: str, start: int, end: int) -> tuple[Literal, ...]:
    """The literals that the expression between two offsets is written with. Raises LiteralError: there is something
    else."""
    found: list[Literal] = []
    position = start
    while position < end:
        between = _BETWEEN.match(text, position, end)
        if between is not None:
            position = between.end()
            continue
        literal = _literal(text, position, end)
        found.append(literal)
        position = literal.end
    return tuple(found)


def _literal(text: str, start: int, end: int) -> Literal:
    opening = _OPENING.match(text, start, end)
    if opening is None:
        raise LiteralError(f"no string at offset {start}")
    prefix, quote = opening["prefix"], opening["quote"]
    if "f" in prefix.lower() or "t" in prefix.lower():
        parts, position = _parts(text, opening.end(), end, quote, "r" in prefix.lower())
    else:
        parts, position = (), _closing(text, opening.end(), end, quote)
    return Literal(start, position + len(quote), prefix, quote, parts)


def _closing(text: str, position: int, end: int, quote: str) -> int:
    found = _INSIDE[quote].match(text, position, end)
    if found is None or not text.startswith(quote, found.end()):
        raise LiteralError("a string does not end")
    return found.end()


def _parts(text: str, position: int, end: int, quote: str, is_raw: bool) -> tuple[tuple[LiteralPart, ...], int]:
    """The parts up to the closing quote, and where that is."""
    found: list[LiteralPart] = []
    begin = position
    while position < end:
        plain = _PLAIN.match(text, position, end)
        if plain is not None:
            position = plain.end()
            continue
        character = text[position]
        if text.startswith(quote, position):
            return (*found, *_text(begin, position)), position
        if text.startswith(("{{", "}}"), position):
            position += 2
        elif character == "{":
            found += _text(begin, position)
            part, position = _code(text, position + 1, end, quote, is_raw)
            found.append(part)
            begin = position
        elif character == "\\" and not is_raw and text.startswith("N{", position + 1):
            position = text.index("}", position) + 1
        else:
            # In a raw string a backslash still keeps the quote behind it from ending the string.
            position += 2 if character == "\\" and text[position + 1 : position + 2] not in ("{", "}") else 1
    raise LiteralError("an f-string does not end")


def _text(begin: int, end: int) -> tuple[LiteralPart, ...]:
    return (LiteralPart(begin, end, is_code=False),) if begin < end else ()


def _code(text: str, position: int, end: int, quote: str, is_raw: bool) -> tuple[LiteralPart, int]:
    """The expression behind an opening brace, and the offset behind the closing one."""
    start = position
    depth = 0
    while position < end:
        character = text[position]
        if depth == 0 and character in "!:}=" and not text.startswith("!=", position):
            if character == "=" and (text[position + 1] == "=" or text[position - 1] in "<>=!"):
                position += 2 if text[position + 1] == "=" else 1
                continue
            return _closed(text, start, position, end, quote, is_raw)
        string = _STRING_IN_CODE.match(text, position, end)
        if string is not None:
            position = _literal(text, position, end).end
        elif character == "#":
            newline = text.find("\n", position, end)
            position = end if newline < 0 else newline
        elif character.isidentifier():
            name = _NAME.match(text, position, end)
            position = name.end() if name is not None else position + 1
        else:
            depth += _BRACKETS.get(character, 0)
            position += 2 if text.startswith("!=", position) else 1
    raise LiteralError("a brace of an f-string does not end")


def _closed(text: str, start: int, position: int, end: int, quote: str, is_raw: bool) -> tuple[LiteralPart, int]:
    """The part whose expression ends at `position`, whatever follows up to its closing brace."""
    code_end = position
    while code_end > start and text[code_end - 1].isspace():
        code_end -= 1
    while start < code_end and text[start].isspace():
        start += 1
    if text[position] == "=":
        position += 1
        while text[position].isspace():
            position += 1
    if text[position] == "!":
        position += 1
        while text[position] not in ":}":
            position += 1
    inner: tuple[LiteralPart, ...] = ()
    if text[position] == ":":
        inner, position = _format(text, position + 1, end, quote, is_raw)
    if text[position] != "}":
        raise LiteralError("a brace of an f-string does not end")
    return LiteralPart(start, code_end, is_code=True, format=inner), position + 1


def _format(text: str, position: int, end: int, quote: str, is_raw: bool) -> tuple[tuple[LiteralPart, ...], int]:
    """The parts of a format up to the brace that closes the expression, and where that is."""
    found: list[LiteralPart] = []
    begin = position
    while position < end:
        character = text[position]
        if character == "}":
            return (*found, *_text(begin, position)), position
        if character == "{":
            found += _text(begin, position)
            part, position = _code(text, position + 1, end, quote, is_raw)
            found.append(part)
            begin = position
        else:
            position += 1
    raise LiteralError("a format of an f-string does not end")
