"""Splices the edits of a text: chooses those that are made, and makes the new text. Nothing else does.

An edit may lie inside another. It is made where the outer one keeps the code that it is in, and is void where the outer
one replaces that code. Of two edits that want the same characters otherwise, one is refused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from gpu2npu.python.text.offsets import holds, splice
from gpu2npu.records import Bounds, Edit


class Replacement(NamedTuple):
    """The text between two offsets is replaced by another."""

    start: int
    end: int
    new: str


class _Row(Struct, frozen=True, eq=False):
    """Edits beside each other, in the order of the text, and the offsets at which they begin."""

    nodes: list[EditNode] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def add(self, node: EditNode) -> None:
        """Append an edit that begins behind all others, or with the last."""
        self.nodes.append(node)
        self.starts.append(node.start)

    def within(self, start: int, end: int) -> list[EditNode]:
        """The edits between two offsets."""
        near = self.nodes[bisect_left(self.starts, start) : bisect_right(self.starts, end)]
        return [node for node in near if node.end <= end]

    def enclosing(self, start: int, end: int) -> EditNode | None:
        """The edit that replaces more than what is between two offsets."""
        index = bisect_right(self.starts, start) - 1
        node = self.nodes[index] if index >= 0 else None
        return node if node is not None and end <= node.end and (node.start, node.end) != (start, end) else None


class EditNode(Struct, frozen=True, eq=False):
    """An edit and those inside of it."""

    edit: Edit
    inside: _Row = field(default_factory=_Row)

    @property
    def start(self) -> int:
        return self.edit.extent[0]

    @property
    def end(self) -> int:
        return self.edit.extent[1]

    def in_piece(self, index: int) -> list[EditNode]:
        """The edits inside of the piece with an index, which is a part of what the edit replaces."""
        piece, *after = self.edit.pieces[index:]
        assert not isinstance(piece, str)
        start, end = piece
        goes_on = any(not isinstance(other, str) and other[0] == end for other in after)
        nodes = self.inside.within(start, end)
        return [node for node in nodes if not (goes_on and node.start == node.end == end)]

    def keeps(self, piece: Bounds) -> bool:
        """Return whether a piece of the source lies in what the edit replaces."""
        return holds(self.edit.extent, piece)


class Edited:
    """A text and its edits. Of two that cannot both be made, the one that is given first is; of insertions at one
    place, the text of the first comes first."""

    def __init__(self, source: str, edits: Sequence[Edit]) -> None:
        self.source = source
        self._edits = edits
        self._row = _nested(edits)

    @property
    def nodes(self) -> Sequence[EditNode]:
        """The edits that are in no other, in the order of the text."""
        return self._row.nodes

    @property
    def text(self) -> str:
        """The text after the edits."""
        return self.spliced(0, len(self.source), self._row.nodes)

    @property
    def replacements(self) -> list[Replacement]:
        """The replaced ranges in the order of the text, each with its new text. None overlaps another."""
        return [Replacement(node.start, node.end, self.new(node)) for node in self._row.nodes]

    def made(self) -> Iterator[tuple[Edit, Edit | None]]:
        """The edits that are made, each with the outermost one that it is in, if any."""
        for node in self._row.nodes:
            yield node.edit, None
            yield from ((edit, node.edit) for edit in self._made_inside(node))

    def between(self, start: int, end: int) -> str:
        """Return the text that now stands between two offsets in the source, without insertions at the two."""
        row = self._row
        while (outer := row.enclosing(start, end)) is not None:
            row = outer.inside
        inside = row.within(start, end)
        return self.spliced(start, end, [node for node in inside if start < node.end and node.start < end])

    def written(self, edit: Edit, end: int) -> str:
        """The new text of an edit that is made, and what stands now from there to an offset in the source, without
        insertions there."""
        row = self._row
        while (index := next((index for index, node in enumerate(row.nodes) if node.edit is edit), None)) is None:
            outer = row.enclosing(*edit.extent)
            assert outer is not None
            row = outer.inside
        node, *after = row.nodes[index:]
        return self.new(node) + self.spliced(
            node.end, end, [other for other in after if other.start < end and other.end <= end]
        )

    def new(self, node: EditNode) -> str:
        parts = []
        for index, piece in enumerate(node.edit.pieces):
            if isinstance(piece, str):
                parts.append(piece)
            elif node.keeps(piece):
                parts.append(self.spliced(*piece, node.in_piece(index)))
            else:
                parts.append(self._moved(node.edit, piece).between(*piece))
        return "".join(parts)

    def _moved(self, edit: Edit, piece: Bounds) -> Edited:
        """A piece of code that an edit has from elsewhere, where its rule put something else."""
        inside = [other for other in self._edits if holds(piece, other.extent)]
        return Edited(self.source, [other for other in inside if (other.extent, other.rule) != (piece, edit.rule)])

    def _made_inside(self, node: EditNode) -> Iterator[Edit]:
        for index, piece in enumerate(node.edit.pieces):
            if isinstance(piece, str):
                continue
            if node.keeps(piece):
                for inner in node.in_piece(index):
                    yield inner.edit
                    yield from self._made_inside(inner)
            else:
                yield from (edit for edit, _ in self._moved(node.edit, piece).made())

    def spliced(self, start: int, end: int, nodes: Iterable[EditNode]) -> str:
        replacements = [(node.start - start, node.end - start, self.new(node)) for node in nodes]
        return splice(self.source[start:end], replacements)


def conflict(one: Edit, other: Edit) -> bool:
    """Return whether two edits cannot both be made: they want the same characters, and neither keeps the other's."""
    if one.extent[0] >= other.extent[1] or other.extent[0] >= one.extent[1]:
        return False
    return not (_keeps(one, other) or _keeps(other, one))


def _keeps(outer: Edit, inner: Edit) -> bool:
    retained = (piece for piece in outer.pieces if not isinstance(piece, str))
    return outer.extent != inner.extent and any(holds(piece, inner.extent) for piece in retained)


def _nested(edits: Sequence[Edit]) -> _Row:
    """The edits as a tree, without those that are refused."""
    ranks: dict[int, int] = {}
    first: dict[Bounds, Edit] = {}
    left: list[Edit] = []
    for rank, edit in enumerate(edits):
        ranks[id(edit)] = rank
        start, end = edit.extent
        if start == end or first.setdefault(edit.extent, edit) is edit:
            left.append(edit)
    left.sort(key=lambda edit: (edit.extent[0], edit.extent[0] != edit.extent[1], -edit.extent[1]))
    while (crossing := _crossing(left)) is not None:
        refused = max(crossing, key=lambda edit: ranks[id(edit)])
        left = [edit for edit in left if edit is not refused]
    top = _Row()
    stack: list[EditNode] = []
    for edit in left:
        while stack and stack[-1].end <= edit.extent[0]:
            stack.pop()
        node = EditNode(edit)
        (stack[-1].inside if stack else top).add(node)
        stack.append(node)
    return top


def _crossing(edits: Sequence[Edit]) -> tuple[Edit, Edit] | None:
    """Two edits, of some that are sorted by where they begin, of which the one ends within the other."""
    stack: list[Edit] = []
    for edit in edits:
        while stack and stack[-1].extent[1] <= edit.extent[0]:
            stack.pop()
        if stack and edit.extent[1] > stack[-1].extent[1]:
            return stack[-1], edit
        stack.append(edit)
    return None
