"""The edits of lines that turn a text into its migrated one, all of them or those of one place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from gpu2npu.records import Change, Operation


class LineEdit(Struct, frozen=True):
    """Replace the lines from `start` to before `end`, counted from 0, by `text`, whole lines."""

    start: int
    end: int
    text: str


# As editors count them: a form feed ends no line.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its end."""
    return _LINE.findall(text)


def line_edits(before: str, after: str) -> tuple[LineEdit, ...]:
    """The edits of one text to another, by their places; lines that were replaced one by one are edits of their own."""
    old, new = lines_of(before), lines_of(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return tuple(edit for code in matcher.get_opcodes() for edit in _edits(code, new))


def _edits(code: tuple[str, int, int, int, int], new: Sequence[str]) -> Iterator[LineEdit]:
    tag, start, end, new_start, new_end = code
    if tag == "equal":
        return
    if end - start == new_end - new_start:
        yield from (LineEdit(start + each, start + each + 1, new[new_start + each]) for each in range(end - start))
    else:
        yield LineEdit(start, end, "".join(new[new_start:new_end]))


def edits_for(change: Change, changes: Iterable[Change], edits: Sequence[LineEdit]) -> tuple[LineEdit, ...]:
    """The edits of the lines of a change, and those that insert the imports which the file needs for it."""
    imports = (each for each in changes if each.operation is Operation.INSERT and each.after.startswith("import "))
    wanted = [change, *imports]
    return tuple(edit for edit in edits if any(_touches(edit, each) for each in wanted))


def _touches(edit: LineEdit, change: Change) -> bool:
    """Return whether an edit is of a line of a change; an insertion stands before its line, or behind the last one."""
    first, last = change.span.start_line - 1, change.span.end_line - 1
    if edit.start == edit.end:
        return first <= edit.start <= last + 1
    return edit.start <= last and first < edit.end
