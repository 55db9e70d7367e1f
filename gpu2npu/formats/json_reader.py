"""JSON, with the comments and trailing commas that people write in it, as a tree with places."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Sequence

from gpu2npu.formats.nodes import RECORDS, FormatError, Items, Mapping, Node, Scalar

_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?P<double>[^"\\\n]*(?:\\.[^"\\\n]*)*)"|\'(?P<single>[^\'\\\n]*(?:\\.[^\'\\\n]*)*)\'')
_ATOM = re.compile(r"[\w.+\-$]+")
_ESCAPE = re.compile(
    r"\\(?:u(?P<code>[0-9a-fA-F]{4})(?:(?<=[dD][89abAB]..)\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2}))?|(?P<character>.))",
    re.DOTALL,
)
_MEANING = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_MAX_DEPTH = 200


_decoder = json.JSONDecoder()


def read_json(text: str, words: Sequence[int] | None = None) -> Node:
    """The tree of a text. With `words`, the sorted offsets of all that rules could be for, records of data are left out
    that have none of them. Raises FormatError where it is not JSON."""
    node, at = _Reader(text, words).value(_skip(text, 0), 0)
    at = _skip(text, at)
    if at != len(text):
        raise _error(text, at, "there is more text after its value")
    return node


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at


def _error(text: str, at: int, reason: str) -> FormatError:
    line = text.count("\n", 0, at) + 1
    return FormatError(f"it is not JSON (line {line}: {reason})")


class _Reader:
    """Reads the values of a text; each method takes an offset and returns a node and the offset behind it."""

    def __init__(self, text: str, words: Sequence[int] | None) -> None:
        self.text, self.words = text, words

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        text = self.text
        if depth > _MAX_DEPTH:
            raise _error(text, at, "it is nested too deeply")
        if text.startswith("{", at):
            return self.object(at + 1, depth)
        if text.startswith("[", at):
            return self.array(at + 1, depth)
        string = _STRING.match(text, at)
        if string is not None:
            return _scalar(string), string.end()
        atom = _ATOM.match(text, at)
        if atom is None:
            raise _error(text, at, "a value is missing")
        return Scalar(at, atom.end(), None, atom=atom[0]), atom.end()

    def object(self, at: int, depth: int) -> tuple[Node, int]:
        text, entries = self.text, []
        at = _skip(text, at)
        while not text.startswith("}", at):
            string = _STRING.match(text, at)
            atom = None if string is not None else _ATOM.match(text, at)
            if string is not None:
                key, at = _scalar(string), string.end()
            elif atom is not None:
                key, at = Scalar(at, atom.end(), atom[0]), atom.end()
            else:
                raise _error(text, at, "a key is missing")
            at = _skip(text, at)
            if not text.startswith(":", at):
                raise _error(text, at, "a colon is missing")
            value, at = self.value(_skip(text, at + 1), depth + 1)
            entries.append((key, value))
            at = _separated(text, at, "}")
        return Mapping(tuple(entries)), at + 1

    def array(self, at: int, depth: int) -> tuple[Node, int]:
        text, items, count = self.text, list[Node](), 0
        at = _skip(text, at)
        while not text.startswith("]", at):
            count += text.startswith("{", at)
            end = self._behind_record(at) if count > RECORDS else None
            if end is not None:
                at = end
            else:
                value, at = self.value(at, depth + 1)
                items.append(value)
            at = _separated(text, at, "]")
        return Items(tuple(items)), at + 1

    def _behind_record(self, at: int) -> int | None:
        """The offset behind an object without a word of a rule; None for what has one, or is not plain JSON."""
        if self.words is None or not self.text.startswith("{", at):
            return None
        try:
            _, end = _decoder.raw_decode(self.text, at)
        except (ValueError, RecursionError):
            return None
        return end if bisect_left(self.words, at) == bisect_left(self.words, end) else None


def _separated(text: str, at: int, closer: str) -> int:
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if not text.startswith(closer, at):
        raise _error(text, at, f"a comma or {closer!r} is missing")
    return at


def _scalar(string: re.Match[str]) -> Scalar:
    start, end = string.start() + 1, string.end() - 1
    raw = string[0][1:-1]
    if "\\" not in raw:
        return Scalar(start, end, raw)
    value, places = unescaped(raw, start)
    return Scalar(start, end, value, places)


def unescaped(raw: str, start: int) -> tuple[str, list[int]]:
    """The meaning of the inside of a JSON string that is at `start`, and the place of each of its characters."""
    characters: list[str] = []
    places: list[int] = []
    at = 0
    while at < len(raw):
        escape = _ESCAPE.match(raw, at)
        places.append(start + at)
        if escape is None:
            characters.append(raw[at])
            at += 1
            continue
        if escape["code"] is not None:
            code = int(escape["code"], 16)
            if escape["low"] is not None:  # the two halves of one character
                code = 0x10000 + ((code - 0xD800) << 10) + int(escape["low"], 16) - 0xDC00
            characters.append(chr(code))
        else:
            characters.append(_MEANING.get(escape["character"], escape["character"]))
        at = escape.end()
    places.append(start + len(raw))
    return "".join(characters), places
