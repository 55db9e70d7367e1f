"""What the rules have to say of one file: edits, findings, and the imports beside which others belong."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gpu2npu.python.scopes import Scope
from gpu2npu.python.syntax import Import
from gpu2npu.records import FindingKind, Operation, Severity
from gpu2npu.rulebook.rule import Rule

# The offsets of a first character and of the one behind the last.
Bounds = tuple[int, int]
# A piece of new code: text, or a part of the file between two offsets, as edited itself.
Code = str | Bounds


@dataclass(frozen=True)
class Edit:
    """Replace the text between the bounds `place` because of a rule.

    `text` may be made of pieces of the file. `shown` is the larger expression the change is reported as, `place` itself
    unless given. `replaced` widens what is replaced, to the comma of an argument that is taken out. `needs` are modules
    that the new text spells out and that must be imported.
    """

    place: Bounds
    text: str | tuple[Code, ...]
    rule: str
    message: str
    shown: Bounds | None = None
    replaced: Bounds | None = None
    needs: tuple[str, ...] = ()
    operation: Operation = Operation.MODIFY

    @property
    def extent(self) -> Bounds:
        """What is replaced."""
        return self.replaced or self.place


@dataclass(frozen=True)
class Found:
    """A finding at a place."""

    place: Bounds
    rule: str
    kind: FindingKind
    api: str
    message: str
    severity: Severity = Severity.CHANGE


@dataclass(frozen=True)
class Question:
    """A member edit that depends on what `receiver` is, which only inference across files can tell."""

    receiver: ast.expr
    member: str
    edit: Edit


@dataclass(frozen=True)
class ImportSite:
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
    """What the rules matched in one file. `anchors` are names beside whose import a further one belongs."""

    edits: list[Edit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    sites: list[ImportSite] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    traits: set[str] = field(default_factory=set)

    def note(self, rule: Rule, place: Bounds, api: str) -> None:
        """Keep what a rule says of a place besides editing it."""
        if rule.then.trait is not None:
            self.traits.add(rule.then.trait)
        if rule.then.report is not None:
            report = rule.then.report
            self.found.append(Found(place, rule.id, report.kind, api, report.message, report.severity))
