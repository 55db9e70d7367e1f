"""What a walk over a module collects, before any position is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from gpu2npu.engine.edits import Edit
from gpu2npu.engine.imports import ImportSite
from gpu2npu.records import FindingKind
from gpu2npu.rulebook.rule import Rule


@dataclass(frozen=True)
class Found:
    """A finding at a node, before its position is known."""

    node: cst.CSTNode
    rule: str
    kind: FindingKind
    api: str
    message: str


@dataclass(frozen=True)
class Doubt:
    """A method edit that depends on what `receiver` is, which only inference across files can tell."""

    receiver: cst.CSTNode
    member: str
    edit: Edit


@dataclass
class Matches:
    """What a walk found in one module."""

    edits: list[Edit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    sites: list[ImportSite] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)  # names beside whose import a further one belongs
    traits: set[str] = field(default_factory=set)
    above: set[int] = field(default_factory=set)  # ids of all nodes above those that edits and findings are about

    def add(self, item: Edit | Found | Doubt | ImportSite, above: list[cst.CSTNode]) -> None:
        self.above.update(map(id, above))
        if isinstance(item, Edit):
            self.edits.append(item)
        elif isinstance(item, Found):
            self.found.append(item)
        elif isinstance(item, Doubt):
            self.doubts.append(item)
        else:
            self.sites.append(item)

    def note(self, rule: Rule, node: cst.CSTNode, api: str, above: list[cst.CSTNode]) -> None:
        """What a rule says of a place besides editing it."""
        if rule.then.trait is not None:
            self.traits.add(rule.then.trait)
        if rule.then.report is not None:
            report = rule.then.report
            self.add(Found(node, rule.id, report.kind, api, report.message), above)
