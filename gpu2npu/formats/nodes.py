"""A configuration as a tree in which every scalar knows its exact place: what YAML, JSON and TOML have in common."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

# Where a list or a mapping has so many mappings, the further ones are records of data.
RECORDS = 50
_MAX_DEPTH = 200


class FormatError(ValueError):
    """A text is not what its name says; the message is for the user."""


class Scalar(Struct, frozen=True):
    """A value, or a key. From `start` to `end` is its text, without quotes.

    `value` is the string it means, None where it is a number or the like, whose text is `atom`. `places` gives the
    offset of each character of the value, and of its end, where escapes make them irregular; it is None where the text
    is the value itself.
    `exact` is False where the places are not known, or other places take the value by its `anchor`. `block` is for a
    text of several lines.
    """

    start: int
    end: int
    value: str | None
    places: Sequence[int] | None = None
    exact: bool = True
    block: bool = False
    atom: str = ""
    anchor: str = ""

    def place(self, index: int) -> int:
        """The offset of a character of the value."""
        return self.start + index if self.places is None else self.places[index]


class Mapping(Struct, frozen=True):
    entries: tuple[tuple[Scalar, Node], ...]


class Items(Struct, frozen=True):
    """A list. Other places take it by its `anchor`; `alias` is for such a place. A place that takes a mapping has no
    items, and the mapping as `taken`."""

    items: tuple[Node, ...]
    anchor: str = ""
    alias: bool = False
    taken: Mapping | None = None


Node = Scalar | Mapping | Items


class TreeReader:
    """Reads a text with lists in brackets and mappings in braces, as JSON and TOML have them: methods take an offset
    and return a node and the offset behind it."""

    language: ClassVar[str]
    space: ClassVar[re.Pattern[str]]
    string: ClassVar[re.Pattern[str]]
    atom: ClassVar[re.Pattern[str]]

    def __init__(self, text: str) -> None:
        self.text = text

    def scalar(self, string: re.Match[str]) -> Scalar:
        """The value of a string."""
        raise NotImplementedError

    def mapping(self, at: int, depth: int) -> tuple[Node, int]:
        """Read a mapping behind its opening brace."""
        raise NotImplementedError

    def items(self, at: int, depth: int) -> tuple[Node, int]:
        """Read a list behind its opening bracket."""
        items, at = list[Node](), self.skip(at)
        while not self.text.startswith("]", at):
            value, at = self.value(at, depth + 1)
            items.append(value)
            at = self.separated(at, "]")
        return Items(tuple(items)), at + 1

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        """Read any value."""
        text = self.text
        if depth > _MAX_DEPTH:
            raise self.error(at, "it is nested too deeply")
        string = self.string.match(text, at)
        if string is not None:
            return self.scalar(string), string.end()
        if text.startswith("{", at):
            return self.mapping(at + 1, depth)
        if text.startswith("[", at):
            return self.items(at + 1, depth)
        atom = self.atom.match(text, at)
        if atom is None:
            raise self.error(at, "a value is missing")
        return Scalar(at, atom.end(), None, atom=atom[0]), atom.end()

    def separated(self, at: int, closer: str) -> int:
        """The offset of the next element, or of the bracket that closes."""
        at = self.skip(at)
        if self.text.startswith(",", at):
            return self.skip(at + 1)
        if not self.text.startswith(closer, at):
            raise self.error(at, f"a comma or {closer!r} is missing")
        return at

    def skip(self, at: int, pattern: re.Pattern[str] | None = None) -> int:
        """The offset behind white space and comments, or what else a pattern matches."""
        match = (pattern or self.space).match(self.text, at)
        return match.end() if match is not None else at

    def error(self, at: int, reason: str) -> FormatError:
        """The reason why the text is not of the language, with its line."""
        line = self.text.count("\n", 0, at) + 1
        return FormatError(f"it is not {self.language} (line {line}: {reason})")


def entry(node: Node | None, *keys: str) -> Node | None:
    """Return the node under a path of keys, or None."""
    for key in keys:
        if not isinstance(node, Mapping):
            return None
        node = next((value for name, value in node.entries if name.value == key), None)
    return node


def scalars(node: Node, with_keys: bool = False) -> Iterator[Scalar]:
    """The values in a tree, and its keys where these are wanted."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Mapping):
        for key, value in node.entries:
            yield from (key,) if with_keys else ()
            yield from scalars(value, with_keys)
    else:
        for item in node.items:
            yield from scalars(item, with_keys)


def without_data(node: Node, words: Sequence[int]) -> Node:
    """A tree without the records of data that have none of some words, by the sorted offsets of these."""
    if isinstance(node, Scalar):
        return node
    pairs: Sequence[tuple[Any, Node]] = (
        node.entries if isinstance(node, Mapping) else [(item,) * 2 for item in node.items]
    )
    records = [pair for pair in pairs if isinstance(pair[1], Mapping)][RECORDS:]
    gone = {id(pair) for pair in records if not _has_word(pair, words)}
    left = [(key, without_data(value, words)) for key, value in (pair for pair in pairs if id(pair) not in gone)]
    return Mapping(tuple(left)) if isinstance(node, Mapping) else replace(node, items=tuple(each for _, each in left))


def _has_word(record: Sequence[Node], words: Sequence[int]) -> bool:
    """Return whether a word is in a record, or may be where other places take a value from."""
    found = [each for node in record for each in scalars(node, with_keys=True)]
    start, end = min((each.start for each in found), default=0), max((each.end for each in found), default=0)
    return any(each.anchor for each in found) or bisect_left(words, start) != bisect_left(words, end)
