"""The matches of the rules in one file: edits, findings, and the imports beside which others belong."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from msgspec import Struct

from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import Import
from gpu2npu.records import Bounds, Edit, Found
from gpu2npu.rulebook.rule import Rule


class ReceiverQuestion(Struct, frozen=True):
    """A member edit that depends on what `receiver` is, which only inference across files can find out."""

    receiver: ast.expr
    member: str
    edit: Edit


class ImportSite(Struct, frozen=True):
    """An import statement that brings torch into the file.

    `names` are the packages and local names it is about, `is_plain` says that it is `import torch`, `is_edited` that it
    imports from the NPU's module now, `is_for_types` that it stands under `if TYPE_CHECKING`.
    """

    statement: Import
    scope: Scope
    names: frozenset[str]
    is_plain: bool
    is_edited: bool
    is_for_types: bool


@dataclass
class Matches:
    """The matches of the rules in one file. `anchors` are names beside whose import a further one belongs,
    `edited_imports` the statements that import something under its new name."""

    edits: list[Edit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    questions: list[ReceiverQuestion] = field(default_factory=list)
    sites: list[ImportSite] = field(default_factory=list)
    edited_imports: set[Import] = field(default_factory=set)
    anchors: set[str] = field(default_factory=lambda: {"torch"})
    traits: set[str] = field(default_factory=set)

    def note(self, rule: Rule, place: Bounds, api: str) -> None:
        """Keep what a rule says of a place besides editing it."""
        if rule.then.trait is not None:
            self.traits.add(rule.then.trait)
        if rule.then.report is not None:
            report = rule.then.report
            self.found.append(Found(place, rule.id, report.kind, api, report.message, report.severity))
