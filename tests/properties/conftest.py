"""Checks that must hold for every migrated file, whatever the rules say."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator

import pytest

from gpu2npu.records import Change, MigratedFile, Operation

_NEWLINE = re.compile(r"\r\n|\r|\n")
_SEPARATORS = " \t\f\r\n,"

# Source text before and after, and what the tool says it changed.
Check = Callable[[str, str, Iterable[Change]], None]


@pytest.fixture(scope="session")
def only_listed_text_changed() -> Check:
    """Fails unless everything outside the spans of the changes is the same, to the character."""

    def check(before: str, after: str, changes: Iterable[Change]) -> None:
        listed = list(changes)
        assert bool(listed) == (before != after)
        for change in listed:
            assert change.before != change.after, change
            assert change.before in before, change
        pattern = "".join(_pattern(before, listed))
        assert re.fullmatch(pattern, after, re.DOTALL), _first_difference(before, after, listed)
        for statement in {change.after for change in listed if change.operation is Operation.INSERT}:
            _check_insertions(before, after, statement, listed)

    return check


@pytest.fixture(scope="session")
def stays_a_program() -> Callable[[str, MigratedFile], str]:
    """The migrated text of a file that was a program before; fails unless it is one still."""

    def check(before: str, result: MigratedFile) -> str:
        assert result.failure is None, result.failure
        after = before if result.content is None else result.content.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in other people's code
            ast.parse(after.removeprefix("\ufeff"))
        return after

    return check


def _check_insertions(before: str, after: str, statement: str, changes: list[Change]) -> None:
    """An import is inserted as often as it is listed; edits of what was there may write the same words."""
    words = re.compile(rf"{re.escape(statement)}(?![\w.])")
    inserted = [change for change in changes if change.operation is Operation.INSERT and change.after == statement]
    gained = len(words.findall(after)) - len(words.findall(before))
    if any(change.operation is not Operation.INSERT and words.search(change.after) for change in changes):
        assert gained >= len(inserted)
    else:
        assert gained == len(inserted)


def _pattern(before: str, changes: list[Change]) -> Iterator[str]:
    """A regular expression for every text that differs from `before` in the spans of the changes only."""
    starts = [0, *(match.end() for match in _NEWLINE.finditer(before)), len(before)]
    edits: list[tuple[int, int]] = []
    inserted: dict[int, set[str]] = {}
    for change in changes:
        span = change.span
        start = starts[span.start_line - 1] + span.start_column
        end = starts[span.end_line - 1] + span.end_column
        if change.operation is Operation.INSERT:
            # An import is before or after the statement it goes with, on its line or on one of its own.
            line_end = starts[min(span.end_line, len(starts) - 1)]
            before_newline = len(before[:line_end].rstrip("\r\n"))
            for point in (starts[span.start_line - 1], start, end, max(end, before_newline), line_end):
                inserted.setdefault(point, set()).add(change.after)
        elif change.operation is Operation.DELETE:
            # What is taken out may take the blanks and the comma beside it along, on the lines that are listed.
            first, last = starts[span.start_line - 1], starts[min(span.end_line, len(starts) - 1)]
            edits.append((len(before[:start].rstrip(_SEPARATORS)), last - len(before[end:last].lstrip(_SEPARATORS))))
            edits[-1] = (max(first, edits[-1][0]), edits[-1][1])
        else:  # where a name is taken out of an import, the row shows the statement, of which its comma is a part
            shown = before.rfind(change.before, 0, start + len(change.before))
            edits.append((shown, shown + len(change.before)) if shown >= 0 else (start, end))
    position = 0
    merged = _merge(edits)
    points = [point for point in inserted if not any(start < point < end for start, end in merged)]
    for start, end in sorted([*merged, *((point, point) for point in points)]):
        yield re.escape(before[position:start])
        if start == end and start in inserted:
            yield f"(?:[\\s;]*(?:{'|'.join(map(re.escape, sorted(inserted[start])))})[\\s;]*)*"
        else:
            yield ".{0,1000}?"
        position = end
    yield re.escape(before[position:])


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _first_difference(before: str, after: str, changes: list[Change]) -> str:
    old, new = before.splitlines(), after.splitlines()
    listed = {line for change in changes for line in range(change.span.start_line, change.span.end_line + 1)}
    gained = set(new) - set(old)
    lost = [f"{number}: {line}" for number, line in enumerate(old, 1) if line not in set(new) and number not in listed]
    return f"lines that changed without being listed: {lost}; lines that are new: {sorted(gained)}; listed: {listed}"
