"""JSON, with the comments and trailing commas that people write in it, as a tree with places."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Sequence

from gpu2npu.formats.nodes import RECORDS, Items, Mapping, Node, Scalar, TreeReader

_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?P<double>[^"\\\n]*(?:\\.[^"\\\n]*)*)"|\'(?P<single>[^\'\\\n]*(?:\\.[^\'\\\n]*)*)\'')
_ATOM = re.compile(r"[\w.+\-$]+")
_ESCAPE = re.compile(
    r"\\(?:u(?P<code>[0-9a-fA-F]{4})(?:(?<=[dD][89abAB]..)\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2}))?|(?P<character>.))",
    re.DOTALL,
)
_MEANING = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_decoder = json.JSONDecoder()


def read_json(text: str, words: Sequence[int] | None = None) -> Node:
    """The tree of a text. With `words`, the sorted offsets of all that rules could be for, records of data are left out
    that have none of them. Raises FormatError where it is not JSON."""
    reader = _Reader(text, words)
    node, at = reader.value(reader.skip(0), 0)
    at = reader.skip(at)
    if at != len(text):
        raise reader.error(at, "there is more text after its value")
    return node


class _Reader(TreeReader):
    language, space, string, atom = "JSON", _SPACE, _STRING, _ATOM

    def __init__(self, text: str, words: Sequence[int] | None) -> None:
        super().__init__(text)
        self.words = words

    def mapping(self, at: int, depth: int) -> tuple[Node, int]:
        text, entries = self.text, []
        at = self.skip(at)
        while not text.startswith("}", at):
            string = _STRING.match(text, at)
            atom = None if string is not None else _ATOM.match(text, at)
            if string is not None:
                key, at = self.scalar(string), string.end()
            elif atom is not None:
                key, at = Scalar(at, atom.end(), atom[0]), atom.end()
            else:
                raise self.error(at, "a key is missing")
            at = self.skip(at)
            if not text.startswith(":", at):
                raise self.error(at, "a colon is missing")
            value, at = self.value(self.skip(at + 1), depth + 1)
            entries.append((key, value))
            at = self.separated(at, "}")
        return Mapping(tuple(entries)), at + 1

    def items(self, at: int, depth: int) -> tuple[Node, int]:
        text, items, count = self.text, list[Node](), 0
        at = self.skip(at)
        while not text.startswith("]", at):
            count += text.startswith("{", at)
            end = self._behind_record(at) if count > RECORDS else None
            if end is not None:
                at = end
            else:
                value, at = self.value(at, depth + 1)
                items.append(value)
            at = self.separated(at, "]")
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

    def scalar(self, string: re.Match[str]) -> Scalar:
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
