"""Insertions where lines go, or move to the left because what is around them goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec.structs import replace

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.records import Code, Edit, FindingKind, Found, MovedLines


class LineLayout:
    """The lines of one file after the edits that are `made`: those of blocks that lose the statement around them, and
    those that are added."""

    def __init__(self, file: PythonFile, made: Iterable[Edit]) -> None:
        self.file = file
        edits = list(made)
        # By where the statement on a line begins: where the line does, which goes as a whole.
        self._gone = {edit.place[0]: edit.extent[0] for edit in edits if _is_gone(file, edit)}
        self._starts = frozenset(self._gone.values())
        moved = {edit.moves for edit in edits if edit.moves is not None}
        self._blocks = sorted(moved, key=lambda block: -block.starts[0])  # the innermost first

    @cached_property
    def moves(self) -> list[Edit]:
        """The edits that move lines to the left."""
        return [
            Edit((start + len(block.outer), start + len(block.inner)), "", "", "")
            for block in self._blocks
            for start in block.starts
        ]

    def placed(self, edit: Edit) -> Edit:
        """The edit where its line, or what is around it, goes: an insertion before the line, and new lines in the
        column of those beside them."""
        moved = self._above_line(edit)
        for block in self._blocks:
            if block.starts[0] <= moved.place[0] <= block.end and edit.moves != block:
                moved = replace(moved, text=self._dedented(moved, block))
        return moved

    def _above_line(self, edit: Edit) -> Edit:
        """An insertion at the start of a statement that goes with its line, as one at the start of that line."""
        (start, end), text = edit.extent, edit.text
        line = self._gone.get(start, start)
        indentation = self.file.text[line:start]
        if start != end or not isinstance(text, str) or not text.strip():
            return edit
        if not text.endswith(f"\n{indentation}"):
            return edit
        above = indentation + text[: len(text) - len(indentation)]
        return replace(edit, place=(line, line), text=above)

    def _dedented(self, edit: Edit, block: MovedLines) -> str | tuple[Code, ...]:
        at_line = self.file.line_before(edit.place[0]) == ""
        if isinstance(edit.text, str):
            return _dedented(edit.text, block, at_line and edit.place[0] == edit.place[1])
        return tuple(_dedented(piece, block) if isinstance(piece, str) else piece for piece in edit.text)


def lost_insertions(edits: Sequence[Edit], made: Iterable[Edit]) -> list[Found]:
    """The findings about insertions that are not made, for other edits take their place."""
    done = set(made)
    return [
        Found(
            edit.place,
            edit.rule,
            FindingKind.REVIEW,
            text.strip(),
            f"{edit.message} `{text.strip()}` is not added, for another change replaces the code here: add it by hand.",
        )
        for edit in edits
        if edit not in done and edit.extent[0] == edit.extent[1]
        for text in edit.pieces
        if isinstance(text, str) and text.strip()
    ]


def _is_gone(file: PythonFile, edit: Edit) -> bool:
    """Return whether an edit takes a statement out with the line that it begins."""
    start = edit.extent[0]
    return (
        edit.text == ""
        and start < edit.place[0]
        and file.line_before(edit.place[0]) == file.text[start : edit.place[0]]
    )


def _dedented(text: str, block: MovedLines, at_line: bool = False) -> str:
    """The text with its lines as far to the left as the lines of a block."""
    if not text.strip():
        return text
    moved = text.replace(f"\n{block.inner}", f"\n{block.outer}")
    return block.outer + moved.removeprefix(block.inner) if at_line and text.startswith(block.inner) else moved
