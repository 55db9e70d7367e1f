"""Collects what a codemod does to the files of a program, and writes the pieces of text that statements take."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field

from gpu2npu.codemods.places import GroupEdit, in_order
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.records import Bounds, Code, Edit, FileRewrite, FindingKind, Found


@dataclass(eq=False)
class Rewriting:
    """The edits and findings of one codemod, `rule`, by file. The same edit or finding given twice counts once."""

    rule: str
    _edits: dict[str, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    _found: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))

    def put(self, file: ParsedFile, start: int, end: int, text: str | tuple[Code, ...], message: str) -> None:
        """Replace the characters from `start` to `end` of the source."""
        self.add(file, (Edit((start, end), text, self.rule, message),))

    def ask_group(
        self,
        file: ParsedFile,
        place: Bounds,
        text: str | tuple[Code, ...],
        message: str,
        alone: str | tuple[Code, ...] | None = None,
        optional: bool = False,
    ) -> None:
        """Replace what is at a place by code that asks the process group; `alone` and `optional` are those of a
        `GroupEdit`."""
        self.add(file, (GroupEdit(place, text, self.rule, message, alone=alone, optional=optional),))

    def add(self, file: ParsedFile, edits: tuple[Edit, ...]) -> None:
        """Take over edits made elsewhere."""
        self._edits[file.path] += edits

    def report(self, file: ParsedFile, node: ast.AST, api: str, message: str) -> None:
        """Leave a node to the user, who reads what to do with it."""
        start, end = file.bounds(node)
        first_line = file.text[start:end].splitlines()[:1]
        place = (start, start + len(first_line[0]) if first_line else end)
        self._found[file.path].append(Found(place, self.rule, FindingKind.REVIEW, api, message))

    def files(self) -> dict[str, FileRewrite]:
        """Return the rewrites that were collected, by path, in the order of the text."""
        return {
            path: FileRewrite(
                in_order(self._edits.get(path, ())),
                tuple(sorted(set(self._found.get(path, ())), key=lambda each: (each.place, each.api, each.message))),
            )
            for path in sorted({*self._edits, *self._found})
        }
