"""Collects what a codemod does to the files of a program, and writes the pieces of text that statements take."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field

from gpu2npu.codemods.program import ParsedFile
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

    def replace(self, file: ParsedFile, node: ast.AST, text: str, message: str) -> None:
        """Replace a node."""
        self.put(file, *file.bounds(node), text, message)

    def add(self, file: ParsedFile, edits: tuple[StructuralEdit, ...]) -> None:
        """Take over edits made elsewhere."""
        for edit in edits:
            self._edits[file.path][edit] = None

    def report(self, file: ParsedFile, node: ast.AST, api: str, message: str) -> None:
        """Leave a node to the user, who reads what to do with it."""
        start, end = file.bounds(node)
        first_line = file.text[start:end].splitlines()[:1]
        span = file.lines.span(start, start + len(first_line[0]) if first_line else end)
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
