"""Devices of packages that compute without PyTorch and know no NPU: what is given to them stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct, field

from gpu2npu.engine.imports import leads_to
from gpu2npu.engine.other_devices.choices import may_be_move
from gpu2npu.engine.other_devices.foreign_calls import foreign_rule_at
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.facts.values import ARGUMENT, COMPARE
from gpu2npu.python.flow.value_files import State, steps_to
from gpu2npu.python.flow.value_project import REACH
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import argument_value, arguments, last_name
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule

STAYS = "Its device stays as it is: on an NPU give it the CPU, or what the package has for Ascend."
_SHARED = "It is given a device that other code uses as well, and that is the NPU now: give it the CPU here."
_MOVED = "It is given what is on the NPU now: give it a copy on the CPU here."
_PLAIN = (ast.Constant, ast.JoinedStr)
_CHOICES = (ast.IfExp, ast.BoolOp)
# Calls that are a device themselves, or a part of what chooses one.
_DEVICES = frozenset({"torch.device", "torch.cuda.is_available"})


class _Given(Struct, frozen=True):
    """The arguments in this file by which a value comes to packages, with the rules for these, and whether other code
    uses it as well."""

    arguments: dict[Bounds, Rule] = field(default_factory=dict)
    is_shared: bool = False

    @property
    def rule(self) -> Rule | None:
        """The rule for the package that alone is given the value."""
        return None if self.is_shared else next(iter(self.arguments.values()), None)


def stays_finding(rule: Rule, place: Bounds, names: Names, advice: str) -> Found:
    message = f"{rule.why} {advice}"
    return Found(place, rule.id, FindingKind.REVIEW, names.file.text[slice(*place)], message, Severity.CHANGE)


class ForeignDevices:
    """Finds the places in one file that choose devices for foreign packages."""

    def __init__(self, names: Names, table: RuleTable) -> None:
        self.names = names
        self.file = names.file
        self.table = table
        self.values = values_of(names.project)
        self._known: dict[int, _Given] = {}

    def given_at(self, place: Bounds) -> tuple[Bounds, Rule] | None:
        """The device that a place is in, with the rule for the package that alone is given it."""
        for node in self._devices:
            if holds(self.file.bounds(node), place) and (rule := self._rule_for(node)) is not None:
                return self.file.bounds(node), rule
        return next((each for each in self._moves if holds(each[0], place)), None)

    def shared_findings(self, edits: Sequence[Edit]) -> Iterator[Found]:
        """The findings of what a package is given while other code uses it as well, where some of `edits` change it."""
        found: dict[Bounds, tuple[Rule, bool]] = {}
        for node in self._nodes if edits else ():
            bounds = self.file.bounds(node)
            if any(holds(bounds, edit.place) for edit in edits):
                for place, rule in self._given(node).arguments.items():
                    is_device = self._is_device(node) or (place in found and found[place][1])
                    found[place] = rule, is_device
        for place, (rule, is_device) in sorted(found.items()):
            yield stays_finding(rule, place, self.names, _SHARED if is_device else _MOVED)

    @cached_property
    def _nodes(self) -> dict[ast.expr, int]:
        """The expressions of the file that have values, by their places; none where no import leads to a package."""
        if not leads_to(self.names, self.table.foreign_packages):
            return {}
        places, file = self.values.places(self.names), self.values.file_of(self.names)
        first = file.first if file is not None else 0
        return {node: first + number for node, number in places.items() if number and isinstance(node, ast.expr)}

    @cached_property
    def _devices(self) -> list[ast.expr]:
        """The expressions that are devices or choose them, the outer ones first."""
        found = (node for node in self._nodes if self._is_device(node))
        return sorted(found, key=lambda node: (self.file.bounds(node)[0], -self.file.bounds(node)[1]))

    @cached_property
    def _moves(self) -> list[tuple[Bounds, Rule]]:
        """The names of methods that move the objects of packages: what other methods of these give may be tensors, as
        in `reader.get_batch(indexes).cuda()`."""
        calls = (node for node in self._nodes if isinstance(node, ast.Call) and may_be_move(self.names, node))
        with self.values.near(self.names.path):
            rules = [(each.func, foreign_rule_at(self._nodes[each], self.names, self.table, 1)) for each in calls]
        return [
            (name_bounds(self.file, func), rule) for func, rule in rules if rule and isinstance(func, ast.Attribute)
        ]

    def _is_device(self, node: ast.expr) -> bool:
        """Return whether an expression is a device, or a condition that chooses one."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, _PLAIN):
                return True
            may_be = any(each.endswith(f".{last_name(node.func)}") for each in _DEVICES)
            return may_be and self.names.qualified(node.func, self.file.scope_of(node)) in _DEVICES
        return isinstance(node, (*_PLAIN, *_CHOICES))

    def _rule_for(self, node: ast.expr) -> Rule | None:
        """The rule for the package that alone is given a device, or what a condition chooses by it."""
        given = self._given(node)
        if given.arguments:
            return given.rule
        reads = [each for each, place in self._nodes.items() if place == self._nodes[node] and each is not node]
        above = [next((each for each in self.file.above(read) if isinstance(each, _CHOICES)), None) for read in reads]
        rules = [self._given(each).rule if each is not None and each in self._nodes else None for each in above]
        return rules[0] if rules and None not in rules else None

    def _given(self, node: ast.expr) -> _Given:
        start = self._nodes[node]
        if start not in self._known:
            with self.values.near(self.names.path):
                found = self._find(start)
            is_own = found.arguments and not found.is_shared  # as far as this file and those that it calls say
            self._known[start] = self._find(start) if is_own else found
        return self._known[start]

    def _find(self, start: int) -> _Given:
        values, given = self.values, dict[Bounds, Rule]()
        steps = values.reach(start)
        is_shared = not values.is_complete((REACH, start))
        for state in steps:
            place, path = state
            file = values.at(place)
            is_end = place in file.parameters and place not in file.out
            is_shared = is_shared or (not path and (is_end or place in file.loads))
            for target, kind, label in file.out.get(place, ()):
                rule = foreign_rule_at(target, self.names, self.table) if kind == ARGUMENT else None
                if rule is not None:
                    given[self._argument(steps_to(state, steps), target)] = rule
                elif not path or (label == "**" and len(path) == 1):
                    is_shared = is_shared or kind == COMPARE or (kind == ARGUMENT and not self._is_own(target))
        return _Given(given, is_shared)

    def _is_own(self, call: int) -> bool:
        """Return whether a call runs functions of the project alone, or holds what it is given: `dict(device=...)`."""
        callees = [one for one, _ in self.values.callees(call) if not one.text.startswith("super(")]
        return bool(callees) and all(
            one.kind not in ("outside", "unknown") or self.values.is_effect(one.text, "table", "copy", "holding")
            for one in callees
        )

    def _argument(self, way: Sequence[State], last: int) -> Bounds:
        """The bounds of the first argument in this file on the way to a call, or else of where the way begins."""
        on_way = {place for place, path in way if not path}
        for (place, _), after in zip(way, (*way[1:], None), strict=True):
            for target, kind, label in self.values.at(place).out.get(place, ()):
                bound = self.values.bindings(target, label) if after is not None and kind == ARGUMENT else ()
                is_next = target == last if after is None else any(each == after[0] for each, _, _ in bound)
                call = self._calls.get(target) if is_next else None
                inside = list(walk(*map(argument_value, arguments(call)))) if call is not None else []
                parts = [part for part in inside if isinstance(part, ast.expr) and self._nodes.get(part) in on_way]
                parts += [part for part in inside if isinstance(part, ast.expr) and self._nodes.get(part) == place]
                if parts:
                    return self.file.bounds(parts[0])
        return next(self.file.bounds(node) for node, place in self._nodes.items() if place == way[0][0])

    @cached_property
    def _calls(self) -> dict[int, ast.Call]:
        return {place: node for node, place in self._nodes.items() if isinstance(node, ast.Call)}
