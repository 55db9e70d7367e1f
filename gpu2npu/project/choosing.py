"""The hunks of a migration that a person takes or leaves: runs of changed lines, as `git add -p` has them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import Change, MigratedFile, Operation


class Hunk(Struct, frozen=True):
    """Lines of one file that a migration replaces: lines `start` to `end` of the source, from 0, the end exclusive.

    `changes` are those that touch these lines; `context` are some lines before and after.
    """

    path: str
    start: int
    end: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    context: tuple[tuple[str, ...], tuple[str, ...]]
    changes: tuple[Change, ...]


# Says which of the hunks of all files are taken.
Choose = Callable[[Sequence[Hunk]], Sequence[bool]]
_CONTEXT = 3


def hunks_of(file: MigratedFile, source: bytes) -> tuple[Hunk, ...]:
    """The hunks of one file that a migration changes, in order."""
    if file.content is None:
        return ()
    encoding = declared_encoding(source)
    old, new = _lines(source, encoding), _lines(file.content, encoding)
    hunks = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            context = tuple(old[max(start - _CONTEXT, 0) : start]), tuple(old[end : end + _CONTEXT])
            changes = tuple(change for change in file.changes if _touches(change, start, end))
            hunks.append(Hunk(file.path, start, end, tuple(old[start:end]), tuple(new[first:last]), context, changes))
    return tuple(hunks)


def with_hunks(file: MigratedFile, source: bytes, taken: Sequence[Hunk]) -> MigratedFile:
    """The file with these of its hunks only, and their changes; without any, it stays as it is."""
    if not taken:
        return replace(file, content=None, changes=())
    encoding = declared_encoding(source)
    lines = _lines(source, encoding)
    for hunk in sorted(taken, key=lambda each: -each.start):
        lines[hunk.start : hunk.end] = hunk.after
    changes = tuple(change for change in file.changes if any(change in hunk.changes for hunk in taken))
    return replace(file, content="".join(lines).encode(encoding), changes=changes)


def _lines(text: bytes, encoding: str) -> list[str]:
    return text.decode(encoding).splitlines(keepends=True)


def _touches(change: Change, start: int, end: int) -> bool:
    """Return whether a change, whose lines count from 1, is at these lines; an insertion is beside them."""
    first, last = change.span.start_line - 1, change.span.end_line - 1
    if start == end:
        return change.operation is Operation.INSERT and first in (start - 1, start)
    return first < end and last >= start
