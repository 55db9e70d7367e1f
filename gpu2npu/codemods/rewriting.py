"""Collects what a codemod does to the files of a program, and writes the pieces of text that statements take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.syntax import walk
from gpu2npu.records import FileRewrite, Finding, FindingKind, StructuralEdit


@dataclass(eq=False)
class Rewriting:
    """The edits and findings of one codemod, `rule`, by file. The same edit or finding given twice counts once."""

    rule: str
    _edits: dict[str, dict[StructuralEdit, None]] = field(default_factory=lambda: defaultdict(dict))
    _findings: dict[str, dict[Finding, None]] = field(default_factory=lambda: defaultdict(dict))

    def put(self, file: ParsedFile, start: int, end: int, text: str, message: str) -> None:
        """Replace the characters from `start` to `end` of the source."""
        self._edits[file.path][StructuralEdit(start, end, text, self.rule, message)] = None

    def replace(self, file: ParsedFile, node: cst.CSTNode, text: str, message: str) -> None:
        """Replace a node."""
        self.put(file, *file.positions.of(node), text, message)

    def add(self, file: ParsedFile, edits: tuple[StructuralEdit, ...]) -> None:
        """Take over edits made elsewhere."""
        for edit in edits:
            self._edits[file.path][edit] = None

    def report(self, file: ParsedFile, node: cst.CSTNode, api: str, message: str) -> None:
        """Leave a node to the user, who reads what to do with it."""
        start, end = file.positions.of(node)
        first_line = file.text[start:end].splitlines()[:1]
        span = file.positions.span(start, start + len(first_line[0]) if first_line else end)
        self._findings[file.path][Finding(span, self.rule, FindingKind.REVIEW, api, message)] = None

    def files(self) -> dict[str, FileRewrite]:
        """What was collected, in the order of the text."""
        return {
            path: FileRewrite(
                tuple(sorted(self._edits.get(path, ()))),
                tuple(sorted(self._findings.get(path, ()), key=lambda found: (found.span, found.api, found.message))),
            )
            for path in sorted({*self._edits, *self._findings})
        }


def line_start(file: ParsedFile, offset: int) -> int:
    """The offset of the first character of a line."""
    return max(start for start in file.positions.line_starts if start <= offset)


def indentation(file: ParsedFile, offset: int) -> str:
    """The white space before a statement that starts at `offset`, which is all that stands before it on its line."""
    return file.text[line_start(file, offset) : offset]


def lines_to_indent(file: ParsedFile, statements: Sequence[cst.CSTNode]) -> Iterator[int]:
    """The starts of the lines of some statements of a block, but the first: neither blank ones nor those in strings."""
    start, end = file.positions.of(statements[0])[0], file.positions.of(statements[-1])[1]
    strings = [span for statement in statements for span in _long_strings(file, statement)]
    for line in file.positions.line_starts:
        blank = not file.text[line:].split("\n", 1)[0].strip()
        if start < line < end and not blank and not any(first < line < last for first, last in strings):
            yield line


def _long_strings(file: ParsedFile, statement: cst.CSTNode) -> Iterator[tuple[int, int]]:
    """From where to where the strings of a statement reach that go over several lines."""
    for node in walk(statement):
        if isinstance(node, (cst.SimpleString, cst.FormattedString)):
            start, end = file.positions.of(node)
            if "\n" in file.text[start:end]:
                yield start, end


def statement_of(file: ParsedFile, node: cst.CSTNode) -> cst.CSTNode | None:
    """The statement of a block that a node is part of; None within a line such as `if x: y()`."""
    below: cst.CSTNode = node
    above = file.parents.get(id(node))
    while above is not None:
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            return below
        if isinstance(above, cst.SimpleStatementSuite):
            return None
        below, above = above, file.parents.get(id(above))
    return None
