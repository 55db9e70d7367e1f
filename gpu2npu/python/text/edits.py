"""Splices the edits of a text: chooses those that are made, and makes the new text. Nothing else does.

An edit may be inside another. It is made where the outer one keeps the code that it is in, and is void where the outer
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
        return self.edit.place[0]

    @property
    def end(self) -> int:
        return self.edit.place[1]

    def all(self) -> Iterator[Edit]:
        """The edit and those inside of it."""
        yield self.edit
        for node in self.inside.nodes:
            yield from node.all()

    def in_piece(self, index: int) -> list[EditNode]:
        """The edits inside of the piece with an index, which is a part of what the edit replaces."""
        piece, *after = self.edit.pieces[index:]
        assert not isinstance(piece, str)
        start, end = piece
        goes_on = any(not isinstance(other, str) and other[0] == end for other in after)
        nodes = self.inside.within(start, end)
        return [node for node in nodes if not (goes_on and node.start == node.end == end)]

    def keeps(self, piece: Bounds) -> bool:
        """Return whether a piece of the source is in what the edit replaces."""
        return holds(self.edit.place, piece)


class Edited:
    """A text and its edits. Of two that cannot both be made, the one that is given first is; of insertions at one
    place, the text of the first comes first."""

    def __init__(self, source: str, edits: Sequence[Edit]) -> None:
        self.source = source
        self._edits = edits
        self._row = _nested(edits)
        self.takes_out = "" in [edit.text for edit in edits]

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
            if node.inside.nodes:
                yield from self._made(node)
            else:
                yield node.edit, None

    def _made(self, node: EditNode) -> Iterator[tuple[Edit, Edit | None]]:
        yield node.edit, None
        if node.edit.is_block:  # what is in the statements is not in the head that they get or lose
            for inner in node.in_piece(len(node.edit.pieces) - 1):
                yield from self._made(inner)
        else:
            yield from ((edit, node.edit) for edit in self._made_inside(node))

    def between(self, start: int, end: int) -> str:
        """Return the text that now is between two offsets in the source, without insertions at the two."""
        row = self._row
        while (outer := row.enclosing(start, end)) is not None:
            row = outer.inside
        inside = row.within(start, end)
        return self.spliced(start, end, [node for node in inside if start < node.end and node.start < end])

    def written(self, edit: Edit) -> str:
        """The new text of an edit that is made."""
        row = self._row
        while (node := next((node for node in row.nodes if node.edit is edit), None)) is None:
            outer = row.enclosing(*edit.place)
            assert outer is not None
            row = outer.inside
        return self.new(node)

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
        inside = [other for other in self._edits if holds(piece, other.place)]
        return Edited(self.source, [other for other in inside if (other.place, other.rule) != (piece, edit.rule)])

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
    if one.place[0] >= other.place[1] or other.place[0] >= one.place[1]:
        return False
    return not (_keeps(one, other) or _keeps(other, one))


def _keeps(outer: Edit, inner: Edit) -> bool:
    retained = (piece for piece in outer.pieces if not isinstance(piece, str))
    is_outer = outer.place != inner.place or outer.is_block > inner.is_block
    return is_outer and any(holds(piece, inner.place) for piece in retained)


def _nested(edits: Sequence[Edit]) -> _Row:
    """The edits as a tree, without those that are refused."""
    ranks: dict[int, int] = {}
    first: dict[tuple[Bounds, bool], Edit] = {}
    left: list[Edit] = []
    for rank, edit in enumerate(edits):
        ranks[id(edit)] = rank
        start, end = edit.place
        if start == end or first.setdefault((edit.place, edit.is_block), edit) is edit:
            left.append(edit)
    left.sort(key=lambda edit: (edit.place[0], edit.place[0] != edit.place[1], -edit.place[1], not edit.is_block))
    while (crossing := _crossing(left)) is not None:
        refused = max(crossing, key=lambda edit: ranks[id(edit)])
        left = [edit for edit in left if edit is not refused]
    top = _Row()
    stack: list[EditNode] = []
    for edit in left:
        while stack and stack[-1].end <= edit.place[0]:
            stack.pop()
        node = EditNode(edit)
        (stack[-1].inside if stack else top).add(node)
        stack.append(node)
    return top


def _crossing(edits: Sequence[Edit]) -> tuple[Edit, Edit] | None:
    """Two edits, of some that are sorted by where they begin, of which the one ends within the other."""
    stack: list[Edit] = []
    for edit in edits:
        while stack and stack[-1].place[1] <= edit.place[0]:
            stack.pop()
        if stack and edit.place[1] > stack[-1].place[1]:
            return stack[-1], edit
        stack.append(edit)
    return None
