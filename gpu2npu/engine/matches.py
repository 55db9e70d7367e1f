"""The matches of the rules in one file: edits, findings, and the imports beside which others belong.

Whether the code at a place stays as it is, is asked when a match is added: nothing is taken out again.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from gpu2npu.engine.imports import ImportSite
from gpu2npu.engine.other_devices.code import OtherDeviceCode, holds_any, other_device_code
from gpu2npu.engine.other_devices.cuda import tests_device
from gpu2npu.engine.other_devices.devices import STAYS, ForeignDevices, stays_finding
from gpu2npu.engine.other_devices.other_packages import OtherPackageCode
from gpu2npu.engine.skips import Skips
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import OWN, Kinds, kinds_by_values
from gpu2npu.python.meaning.types import UNKNOWN
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.tree.syntax import Import
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule

RETAINED = (
    "What this condition decides on is CUDA's own, so it stays as it is, and finds no CUDA on an NPU: where the "
    "code has a counterpart for Ascend, add a branch for it."
)
NAMED = (
    "What runs under this condition is CUDA's own, and the name is true on an NPU as well, as other code tests it too: "
    "also test `torch.version.cuda is not None` here, or add a branch for Ascend."
)
APART = (
    "The project's own code distinguishes the NPU from CUDA in what is tested here, so the condition and what it "
    "decides stay as they are: where the NPU needs what is done for CUDA here, add a branch for it."
)
KERNELS = (
    "Only CUDA kernels, or tests for a GPU, are under this condition, which stays as it is: check which code runs for "
    "tensors on an NPU instead."
)


@dataclass
class Matches:
    """The matches of the rules in one file. `anchors` are names beside whose import a further one belongs,
    `edited_imports` the statements that import something under its new name, `proposed` all findings that rules would
    make, wherever."""

    names: Names
    table: RuleTable
    skips: Skips
    edits: list[Edit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    proposed: list[Found] = field(default_factory=list)
    sites: list[ImportSite] = field(default_factory=list)
    edited_imports: set[Import] = field(default_factory=set)
    anchors: set[str] = field(default_factory=lambda: {"torch"})
    traits: set[str] = field(default_factory=set)
    # What rules would do wherever no package without an NPU is given a device, and findings of such devices.
    _would_edit: list[Edit] = field(default_factory=list)
    _would_ask: list[Edit] = field(default_factory=list)
    _would_report: list[Found] = field(default_factory=list)
    _waiting: list[Found] = field(default_factory=list)
    _left: set[Bounds] = field(default_factory=set)

    def note(self, rule: Rule, place: Bounds, api: str) -> None:
        """Keep what a rule says of a place besides editing it."""
        if rule.then.trait is not None:
            self.traits.add(rule.then.trait)
        if rule.then.report is not None:
            report = rule.then.report
            self.report(Found(place, rule.id, report.kind, api, report.message, report.severity))

    def edit(self, *edits: Edit) -> None:
        """Add edits, but for those of what stays as it is."""
        for edit in edits:
            if not self._is_off(edit) and self._is_ours(edit):
                self._would_edit.append(edit)
                if not self.stays.has(edit.place) or self._is_local(edit.place):
                    self.edits.append(edit)

    def report(self, found: Found) -> None:
        """Add a finding, but for one of code that runs on no NPU."""
        self.proposed.append(found)
        if self._devices.given_at(found.place) is not None:
            self._waiting.append(found)
        else:
            self._take(found)

    def review(self, rule: Rule, place: Bounds, api: str, message: str, severity: Severity = Severity.CHANGE) -> None:
        """Add a finding for a person to look at, which a rule has though its own report says nothing of it."""
        self.report(Found(place, rule.id, FindingKind.REVIEW, api, message, severity))

    def edit_member(self, receiver: ast.expr, member: str, edit: Edit, kinds: Kinds) -> None:
        """Add the edit of a member, where its object, by its type and by where it comes from, is not of a class of the
        project's own; report where that is not certain."""
        if self._is_off(edit) or self._devices.given_at(edit.place) is not None:
            return
        self._would_ask.append(edit)
        if self.stays.has(edit.place):
            return
        if kinds == {UNKNOWN}:
            kinds = kinds_by_values(values_of(self.names.project), self.names, receiver, member)
        if kinds == {OWN}:
            return
        if not kinds <= {OWN, UNKNOWN} or OWN not in kinds:
            self.edits.append(edit)
        if OWN in kinds or kinds == {UNKNOWN}:
            message = (
                f"Classes of this project define {member} themselves, and the type of this object is not certain: "
                f"check that it is a tensor or module."
            )
            self.found.append(Found(edit.place, edit.rule, FindingKind.REVIEW, member, message))

    def finish(self) -> None:
        """Add what depends on all matches: the findings of conditions that stay, and of devices that code shares."""
        for found in self._waiting:  # a device that is not edited is reported as it is
            if not any(holds(place, found.place) for place in self._left):
                self._take(found)
        if not (self._would_edit or self._would_ask or self._would_report):
            return
        for found in self._devices.shared_findings(self._would_edit):
            self._take(found)
        for test, value in self.stays.cuda.named:
            rules = [edit.rule for edit in self._would_edit if holds(value, edit.place)]
            text = self.names.file.text[slice(*test)]
            for rule in rules[:1]:
                self._take(Found(test, rule, FindingKind.REVIEW, text, NAMED, Severity.CHANGE))
        for condition in self.stays.cuda.conditions:
            self.found += [each for each in self._of_condition(condition) if not self._is_off(each)]

    # What stays as it is

    @cached_property
    def stays(self) -> OtherDeviceCode:
        """The code that runs on no NPU."""
        return other_device_code(self.names, self.table)

    @cached_property
    def _other_packages(self) -> OtherPackageCode:
        return OtherPackageCode(self.names, self.table)

    @cached_property
    def _devices(self) -> ForeignDevices:
        return ForeignDevices(self.names, self.table)

    def _is_off(self, item: Edit | Found) -> bool:
        """Return whether the file's own comments switch a match off."""
        if not self.skips.lines:
            return False
        span = self.names.file.lines.span(*item.place)
        return self.skips.covers(item.rule, span.start_line, span.end_line)

    def _is_ours(self, edit: Edit) -> bool:
        """Return whether an edit is of no device that a package gets which knows no NPU; report the place of one."""
        rule = self._other_packages.rule_for(edit)
        if rule is not None:
            self._take(stays_finding(rule, edit.shown or edit.place, self.names, STAYS))
            return False
        given = self._devices.given_at(edit.place)
        if given is not None and given[0] not in self._left:
            self._left.add(given[0])
            self._take(stays_finding(given[1], given[0], self.names, STAYS))
        return given is None

    def _take(self, found: Found) -> None:
        if self._is_off(found):
            return
        self._would_report.append(found)
        stays = self.stays
        # A variable such as FORCE_CUDA is set outside the code, whatever the condition does.
        is_variable = self.table.variable_rule(found.api) is not None and not holds_any(stays.branches, found.place)
        if not (found.api.startswith("torch.cuda.") and stays.has(found.place)) and (
            is_variable or not stays.has_finding(found.place)
        ):
            self.found.append(found)

    def _is_local(self, place: Bounds) -> bool:
        """Return whether a place is a name that the file imports, which has its new name everywhere."""
        text = self.names.file.text
        return text[slice(*place)].isidentifier() and not text.endswith((".", "def "), 0, place[0])

    def _of_condition(self, condition: Bounds) -> list[Found]:
        """The finding of the first rule that would have changed or reported something in a condition that stays; none
        where all of it is reported as it is."""
        file = self.names.file
        would: list[Edit | Found] = [*self._would_edit, *self._would_report, *self._would_ask]
        apart = self.stays.cuda.apart
        inside = [item for item in would if holds_any((condition, *apart.get(condition, ())), item.place)]
        if all(item in self.found for item in inside):
            return []
        within = sorted((item.place, item.rule) for item in inside)
        _, rule = within[0]
        # Tensors on an NPU come to a condition on a device, and take its other branch; one on CUDA itself is about a
        # build.
        is_met = any(tests_device(place, file) for place, _ in within)
        doubtful = [item for item in inside if isinstance(item, Found)]
        is_apart = condition in apart
        if is_met and doubtful == inside and not is_apart:  # it may be about no device: `language == "cuda"`
            return [item for item in doubtful if item not in self.found]
        is_missed = is_met or condition in self.stays.cuda.moves
        message = APART if is_apart else KERNELS if is_met else RETAINED
        severity = Severity.CHANGE if is_missed and not is_apart else Severity.NOTE
        return [Found(condition, rule, FindingKind.REVIEW, file.text[slice(*condition)], message, severity)]
