"""A configuration as a tree in which every scalar knows its exact place: what YAML, JSON and TOML have in common."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class FormatError(ValueError):
    """A text is not what its name says; the message is for the user."""


class Scalar(Struct, frozen=True):
    """A value, or a key. From `start` to `end` stands its text, without quotes.

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
    """A list. Other places take it by its `anchor`; `alias` is for such a place."""

    items: tuple[Node, ...]
    anchor: str = ""
    alias: bool = False


Node = Scalar | Mapping | Items


def entry(node: Node | None, *keys: str) -> Node | None:
    """Return the node under a path of keys, or None."""
    for key in keys:
        if not isinstance(node, Mapping):
            return None
        node = next((value for name, value in node.entries if name.value == key), None)
    return node
