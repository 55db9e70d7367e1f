"""Devices of packages that compute without PyTorch and know no NPU: what is given to them stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from gpu2npu.engine.imports import imported_packages
from gpu2npu.engine.other_devices.choices import is_move
from gpu2npu.engine.other_devices.foreign_calls import assigned_to, foreign_rule_of, is_read
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Parameter, Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    Function,
    argument_value,
    arguments,
    is_self,
    last_name,
    parameters,
)
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule

STAYS = "Its device stays as it is: on an NPU give it the CPU, or what the package has for Ascend."
_SHARED = "It is given a device that other code uses as well, and that is the NPU now: give it the CPU here."
_MOVED = "It is given what is on the NPU now: give it a copy on the CPU here."
_PLAIN = (ast.Constant, ast.JoinedStr)
_CHOICES = (ast.IfExp, ast.BoolOp)
# Calls that are a device themselves, or a part of what chooses one.
_DEVICES = frozenset({"torch.device", "torch.cuda.is_available"})
_MAX_STEPS = 10
_CHAIN = 2  # files through which a name of a package is followed: a base class, and one that is made of it


class _Given(Struct, frozen=True):
    """A name or `self.x` that is given to a package, with the values that it may have."""

    place: Bounds
    values: tuple[_Value, ...]
    rule: Rule


class _Value(Struct, frozen=True):
    """A value of a name: where it is, and whether it is a device, and no tensor or module on one."""

    place: Bounds
    is_device: bool


# By the line of a function: the rules for the packages that its parameters go to, and whether they go there alone.
_ParameterRules = Mapping[int, Mapping[str, tuple[Rule, bool]]]


def stays_finding(rule: Rule, place: Bounds, names: Names, advice: str) -> Found:
    message = f"{rule.why} {advice}"
    return Found(place, rule.id, FindingKind.REVIEW, names.file.text[slice(*place)], message, Severity.CHANGE)


class ForeignDevices:
    """Finds the places in one file that choose devices for foreign packages."""

    def __init__(self, names: Names, table: RuleTable) -> None:
        self.names = names
        self.file = names.file
        self.table = table
        self.places: list[tuple[Bounds, Rule]] = []
        self.shared: list[_Given] = []
        self.given: dict[ast.expr, tuple[Scope, Rule]] = {}  # names and attributes in what is given
        self.own: set[ast.expr] = set()  # those of them that are read for such packages alone
        self.passed: dict[ast.expr, tuple[Scope, Rule]] = {}  # names whose values come to what other code reads as well
        self.mixed: dict[ast.expr, _Given] = {}  # what is given to parameters that other code reads as well
        self.read: dict[str, list[ast.Name | ast.Attribute]] = {}  # all that are read, by their last names

    def given_at(self, place: Bounds) -> tuple[Bounds, Rule] | None:
        """The device that a place is in, with the rule for the package that is given it."""
        return next((each for each in self.places if holds(each[0], place)), None)

    def shared_findings(self, edits: Sequence[Edit]) -> Iterator[Found]:
        """The findings of what a package is given while other code uses it as well, where some of `edits` change it."""
        for given in self.shared:
            edited = [each for each in given.values if any(holds(each.place, edit.place) for edit in edits)]
            if edited:
                advice = _SHARED if any(each.is_device for each in edited) else _MOVED
                yield stays_finding(given.rule, given.place, self.names, advice)

    def collect(self) -> None:
        """Find the places, and among what they name the devices that nothing else uses; none where no import leads to
        such a package."""
        if not leads_to_package(self.names, self.table.foreign_packages):
            return
        for node in self.file.parents:
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                self.read.setdefault(last_name(node) or "", []).append(node)
        others: list[tuple[ast.Call, Scope]] = []
        for node, scope in self.file.uses:
            if not isinstance(node, ast.Call) or not (arguments(node) or is_move(self.file, node)):
                continue  # it is given nothing, and moves nothing
            rule = foreign_rule_of(node, self.names, self.table)
            if rule is not None:
                self._call(node, scope, rule)
            else:
                others.append((node, scope))
        for _ in range(_MAX_STEPS):
            for call, scope in others:
                self._hand_on(call, scope)
            new = {node: where for node, where in self.given.items() if node not in self.own and self._is_own(node)}
            if not new:
                break
            self.own |= new.keys()
            for node, (scope, rule) in new.items():
                for value, its_scope in assigned_to(node, scope):
                    self._device(value, its_scope, rule)
        for node, (scope, rule) in self.given.items():
            if node not in self.own:
                self._share(node, scope, rule)
        for call, scope in others:
            self._hand_on(call, scope)
        self.shared += self.mixed.values()

    def _share(self, node: ast.expr, scope: Scope, rule: Rule) -> None:
        """Keep what a package is given and other code reads as well, with the values of all names on the way."""
        pending, seen = [(node, scope)], {node}
        values: list[_Value] = []
        while pending:
            each, its_scope = pending.pop()
            self.passed[each] = (its_scope, rule)
            for value, where in assigned_to(each, its_scope):
                if not is_read(value):
                    values.append(_Value(self.file.bounds(value), self._is_device(value, where)))
                elif value not in seen:
                    seen.add(value)
                    pending.append((value, where))
        self.shared.append(_Given(self.file.bounds(node), tuple(values), rule))

    def _is_device(self, value: ast.expr, scope: Scope) -> bool:
        if isinstance(value, ast.Call):
            of_text = isinstance(value.func, ast.Attribute) and isinstance(value.func.value, _PLAIN)
            return of_text or self.names.qualified(value.func, scope) in _DEVICES
        return isinstance(value, (*_PLAIN, *_CHOICES))

    def _hand_on(self, call: ast.Call, scope: Scope) -> None:
        """Keep what a call gives to parameters of the project's own functions that are given to packages."""
        called = called_function(self.names, call, self.table.foreign_packages)
        if called is None:
            return
        names, function, bound = called
        rules = self._parameter_rules(names).get(function.lineno, {})
        if not rules:
            return
        for name, value in _given(call, function, bound):
            rule, is_own = rules.get(name, (None, False))
            if rule is None or isinstance(value, ast.Starred):
                continue
            if is_own:
                self._device(value, scope, rule)
            else:
                place = self.file.bounds(value)
                self.mixed[value] = _Given(place, (_Value(place, self._is_device(value, scope)),), rule)

    def _parameter_rules(self, names: Names) -> _ParameterRules:
        """The rules for the parameters of functions in this file, or in another."""
        if names.path == self.names.path:
            return self._parameters_given()

        def ask() -> _ParameterRules:
            other = ForeignDevices(names, self.table)
            other.collect()
            return other._parameters_given()

        return names.project.cached(("foreign parameters", names.path), ask) or {}

    def _parameters_given(self) -> _ParameterRules:
        found: dict[int, dict[str, tuple[Rule, bool]]] = {}
        for node, (scope, rule) in {**self.passed, **self.given}.items():
            bound = scope.lookup(node.id) if isinstance(node, ast.Name) else None
            function = bound[0].node if bound is not None else None
            if bound is not None and isinstance(function, FUNCTIONS) and isinstance(bound[1][0], Parameter):
                found.setdefault(function.lineno, {})[bound[1][0].node.arg] = rule, node in self.own
        return found

    def _call(self, call: ast.Call, scope: Scope, rule: Rule) -> None:
        # What the methods of such objects give may be tensors: `reader.get_batch(indexes).cuda()`.
        if is_move(self.file, call) and foreign_rule_of(call, self.names, self.table, 1) is not None:
            assert isinstance(call.func, ast.Attribute)
            self.places.append((name_bounds(self.file, call.func), rule))
        for argument in arguments(call):
            self._device(argument_value(argument), scope, rule)

    def _device(self, value: ast.expr, scope: Scope, rule: Rule) -> None:
        """Keep the places of strings and choices in what a package is given; not those in calls of other code."""
        if isinstance(value, (*_PLAIN, *_CHOICES)):
            self.places.append((self.file.bounds(value), rule))
            self.given.update(
                (node, (scope, rule)) for node in ast.walk(value) if isinstance(node, ast.expr) and is_read(node)
            )
        elif isinstance(value, (ast.Dict, ast.List, ast.Tuple)):
            for each in value.values if isinstance(value, ast.Dict) else value.elts:
                self._device(each, scope, rule)
        elif isinstance(value, ast.Call):
            self._called(value, scope, rule)
        elif isinstance(value, ast.Subscript):
            self._under_key(value, rule)
        elif is_read(value):
            self.given[value] = (scope, rule)

    def _under_key(self, value: ast.Subscript, rule: Rule) -> None:
        """Keep the devices in the file that a package is given by `config["device"]`, which other code reads too."""
        flow, path = values_of(self.names.project), self.names.path
        given: list[_Value] = []
        for text in self.file.unordered().get(ast.Constant, ()):
            is_device = isinstance(text.value, str) and self.table.literal.fullmatch(text.value) is not None
            at = flow.place_of(self.names, text.lineno, text.col_offset) if is_device else None
            listed = [each for each, fields in flow.reach(at) if fields == ("[0]",)] if at is not None else []
            used = [each.place for each in flow.uses(at, path) if each.kind == "argument"] if at is not None else []
            if any(flow.line(each) == value.lineno and flow.at(each).path == path for each in (*listed, *used)):
                given.append(_Value(self.file.bounds(text), is_device=True))
        if given:
            self.shared.append(_Given(self.file.bounds(value), tuple(given), rule))

    def _called(self, call: ast.Call, scope: Scope, rule: Rule) -> None:
        qualified = self.names.qualified(call.func, scope)
        of_text = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, _PLAIN)  # "cuda:{}".format(i)
        if qualified in _DEVICES or of_text:
            self.places.append((self.file.bounds(call), rule))
        elif last_name(call.func) == "dict":
            for keyword in call.keywords:
                self._device(keyword.value, scope, rule)

    def _is_own(self, node: ast.expr) -> bool:
        """Return whether a name or an attribute of `self` is read for such packages alone."""
        return all(each in self.given for each in self._reads(node))

    def _reads(self, node: ast.expr) -> Iterator[ast.expr]:
        scope, alike = self.given[node][0], self.read[last_name(node) or ""]
        if isinstance(node, ast.Attribute):
            yield from (each for each in alike if isinstance(each, ast.Attribute) and not self._is_other(each, scope))
            return
        assert isinstance(node, ast.Name)
        found = scope.lookup(node.id)
        for each in alike:
            if isinstance(each, ast.Name):
                other = self.file.scope_of(each).lookup(each.id)
                if found is not None and other is not None and other[0] is found[0]:
                    yield each

    def _is_other(self, node: ast.Attribute, scope: Scope) -> bool:
        """Return whether an attribute is one that another class than that around a scope sets for itself."""
        cls, other = scope.enclosing_class(), self.file.scope_of(node).enclosing_class()
        return is_self(node.value) and other is not None and other is not cls and node.attr in other.attributes


def _given(call: ast.Call, function: Function, bound: int) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a call gives to parameters of a function; what `**` unpacks may be for each that gets nothing else."""
    positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][bound:]
    given = [*zip(positional, call.args, strict=False)]
    given += [(each.arg, each.value) for each in call.keywords if each.arg is not None]
    own = [each.arg for each in parameters(function)]
    rest = function.args.kwarg.arg if function.args.kwarg is not None else None
    yield from ((rest if rest is not None and name not in own else name, value) for name, value in given)
    open_names = [name for name in own if name not in dict(given)]
    yield from ((name, each.value) for each in call.keywords if each.arg is None for name in open_names)


# The files from which imports lead to packages, and the project's own functions that calls run


def leads_to_package(names: Names, packages: frozenset[str]) -> bool:
    """Return whether a file imports one of some packages, itself or through at most _CHAIN files of the project.

    A package's `__init__.py` hands names on and is not counted. Longer chains reach all of a large project.
    """
    if not packages.isdisjoint(imported_packages(names.file)):
        return True
    wanted = _importing(names.project, packages)
    return bool(wanted) and not wanted.isdisjoint(_reached(names))


def _importing(project: Project, packages: frozenset[str]) -> frozenset[str]:
    """The files of a project that import one of some packages."""
    found = partial(project.files_with, lambda facts: facts.imports_one_of(packages))
    return project.cached(("imports", packages), found) or frozenset()


def _reached(names: Names) -> Iterator[str]:
    """The files that the imports of a file lead to, nearest first."""
    project, seen = names.project, set[str]()
    near = list(project.imported_paths(names.facts, names.path))
    for length in range(1, _CHAIN + 1):
        far: list[str] = []
        for path in near:
            if path in seen:
                continue
            seen.add(path)
            yield path
            forwards = path.endswith("__init__.py")
            if forwards or length < _CHAIN:
                project.consult(names.path, path)
                (near if forwards else far).extend(project.imported_by(path))
        near = far


def called_function(names: Names, call: ast.Call, packages: frozenset[str]) -> tuple[Names, Function, int] | None:
    """The function of the project that a call runs, perhaps an `__init__`, with the names of its file, and how many
    parameters are given without being written; one of this file or of another that imports one of some packages."""
    values = values_of(names.project)
    place = values.call_at(names, call)
    with values.near(names.path):
        callees = values.callees(place) if place else ()
        found = [(each.place, bound) for each, bound in callees if each.kind == "function"]  # the nearest class first
        if not found or any(each.kind == "outside" and not each.text.startswith("super(") for each, _ in callees):
            return None
    function, bound = found[0]
    path = values.at(function).path
    is_near = path == names.path or path in _importing(names.project, packages)
    other = names.project.names(path, names.path) if is_near else None
    kinds = other.file.unordered() if other is not None else {}
    defined = (each for kind in FUNCTIONS for each in kinds.get(kind, ()) if each.lineno == values.line(function))
    return next(((other, each, bound) for each in defined), None) if other is not None else None
