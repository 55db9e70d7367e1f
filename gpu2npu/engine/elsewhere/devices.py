"""Devices of packages that compute without PyTorch and know no NPU: what is given to them stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu2npu.engine.elsewhere.reach import leads_to_package
from gpu2npu.engine.imports import imported_packages
from gpu2npu.engine.matches import Matches
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Definition, Names
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.tokens import name_bounds
from gpu2npu.python.tree.scopes import Assigned, Defined, Parameter, Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    Function,
    argument_value,
    arguments,
    defaults,
    is_classmethod,
    is_self,
    is_static,
    is_super,
    last_name,
    string_value,
)
from gpu2npu.records import Bounds, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule

_STAYS = "Its device stays as it is: on an NPU give it the CPU, or what the package has for Ascend."
_SHARED = "It is given a device that other code uses as well, and that is the NPU now: give it the CPU here."
_MOVED = "It is given what is on the NPU now: give it a copy on the CPU here."
_PLAIN = (ast.Constant, ast.JoinedStr)
_CHOICES = (ast.IfExp, ast.BoolOp)
# Calls that are a device themselves, or a part of what chooses one.
_DEVICES = frozenset({"torch.device", "torch.cuda.is_available"})
_MOVES = frozenset({"cuda", "to"})
_MAX_STEPS = 10
_MAX_CALLS = 3


@dataclass(frozen=True)
class _Given:
    """A name or `self.x` that is given to a package, with the values that it stands for."""

    place: Bounds
    values: tuple[_Value, ...]
    rule: Rule


@dataclass(frozen=True)
class _Value:
    """A value of a name: where it stands, and whether it is a device, and no tensor or module on one."""

    place: Bounds
    is_device: bool


# By the line of a function: the rules for the packages that its parameters go to, and whether they go there alone.
_ParameterRules = Mapping[int, Mapping[str, tuple[Rule, bool]]]


def leave_devices(names: Names, table: RuleTable, matches: Matches) -> None:
    """Drop the edits of devices that foreign packages are given, and report these places."""
    if not (matches.edits or matches.questions) or not leads_to_package(names, table.foreign_packages):
        return
    devices = _ForeignDevices(names, table)
    devices.collect()
    for place, rule in devices.places:
        inside = [edit for edit in matches.edits if holds(place, edit.place)]
        matches.questions = [each for each in matches.questions if not holds(place, each.edit.place)]
        if not inside:
            continue
        matches.edits = [edit for edit in matches.edits if not holds(place, edit.place)]
        matches.found = [found for found in matches.found if not holds(place, found.place)]
        matches.found.append(_finding(rule, place, names, _STAYS))
    for given in devices.shared:
        edited = [each for each in given.values if any(holds(each.place, edit.place) for edit in matches.edits)]
        if edited:
            advice = _SHARED if any(each.is_device for each in edited) else _MOVED
            matches.found.append(_finding(given.rule, given.place, names, advice))


def foreign_rule(qualified: str, names: Names, table: RuleTable) -> Rule | None:
    """The rule for a package that knows no NPU and has a qualified name; None for other names."""
    rule = table.package_rule(qualified)
    is_own = names.project.module_path(qualified.partition(".")[0], names.path) is not None
    return None if rule is None or not rule.then.own_devices or is_own else rule


def imports_foreign(statement: ast.stmt, names: Names, table: RuleTable) -> bool:
    """Return whether a statement imports nothing but packages that know no NPU."""
    imported = statement.names if isinstance(statement, ast.Import) else ()
    return bool(imported) and all(foreign_rule(each.name, names, table) is not None for each in imported)


def gives_cuda(value: ast.expr, names: Names, table: RuleTable) -> bool:
    """Return whether an expression calls a package that knows no NPU with "cuda": `torch_tvm.enable(device="cuda")`."""
    if not isinstance(value, ast.Call) or "cuda" not in map(string_value, map(argument_value, arguments(value))):
        return False
    qualified = names.qualified(value.func, names.file.scope_of(value))
    return qualified is not None and foreign_rule(qualified, names, table) is not None


def _finding(rule: Rule, place: Bounds, names: Names, advice: str) -> Found:
    message = f"{rule.why} {advice}"
    return Found(place, rule.id, FindingKind.REVIEW, names.file.text[slice(*place)], message, Severity.CHANGE)


class _ForeignDevices:
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
        for node in self.file.parents:
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                self.read.setdefault(last_name(node) or "", []).append(node)

    def collect(self) -> None:
        """Find the places, and among what they name the devices that nothing else uses."""
        others: list[tuple[ast.Call, Scope]] = []
        for node, scope in self.file.uses:
            rule = self._rule_of(node, scope) if isinstance(node, ast.Call) else None
            if rule is not None and isinstance(node, ast.Call):
                self._call(node, scope, rule)
            elif isinstance(node, ast.Call):
                others.append((node, scope))
        for _ in range(_MAX_STEPS):
            for call, scope in others:
                self._hand_on(call, scope)
            new = {node: where for node, where in self.given.items() if node not in self.own and self._is_own(node)}
            if not new:
                break
            self.own |= new.keys()
            for node, (scope, rule) in new.items():
                for value, its_scope in self._values(node, scope):
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
            for value, where in self._values(each, its_scope):
                if not _is_read(value):
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

    def _rule_of(self, call: ast.Call, scope: Scope, depth: int = _MAX_CALLS) -> Rule | None:
        """The rule for the package whose function, or method of what it gave, is called."""
        above = self._rule_of_super(call, scope)
        if above is not None:
            return above
        qualified, made = self.names.qualified(call.func, scope), self.names.definition(call.func, scope)
        if made is not None:
            return self._rule_of_class(made)
        if qualified is not None:
            return foreign_rule(qualified, self.names, self.table)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) and depth else None
        if isinstance(receiver, ast.Call):
            makers = [(receiver, scope)]
        else:
            values = self._values(receiver, scope) if receiver is not None and _is_read(receiver) else ()
            makers = [(value, its_scope) for value, its_scope in values if isinstance(value, ast.Call)]
        rules = {self._rule_of(maker, its_scope, depth - 1) for maker, its_scope in makers}
        return rules.pop() if len(rules) == 1 else None

    def _rule_of_class(self, made: Definition) -> Rule | None:
        """The rule for the package of which the project has a subclass that is made as its base is."""
        node, scope = made.bound.node, made.bound.scope
        if not isinstance(node, ast.ClassDef) or "__init__" in scope.bindings:
            return None
        return self._rule_of_bases(made.names, node, scope.parent or scope)

    def _rule_of_bases(self, names: Names, node: ast.ClassDef, scope: Scope, depth: int = _MAX_STEPS) -> Rule | None:
        """The rule for the package that has the `__init__` which a class inherits, perhaps through the project's own;
        `scope` is the one around the class."""
        for base in node.bases if depth else ():
            qualified, own = names.qualified(base, scope), names.definition(base, scope)
            if qualified is not None and (rule := foreign_rule(qualified, names, self.table)) is not None:
                return rule
            above = own.bound if own is not None else None
            if own is None or above is None or not isinstance(above.node, ast.ClassDef):
                continue
            if "__init__" in above.scope.bindings:
                return None
            found = self._rule_of_bases(own.names, above.node, above.scope.parent or above.scope, depth - 1)
            if found is not None:
                return found
        return None

    def _rule_of_super(self, call: ast.Call, scope: Scope) -> Rule | None:
        """The rule for the package whose `__init__` is called as `super().__init__(...)`."""
        func, cls = call.func, scope.enclosing_class()
        is_init = isinstance(func, ast.Attribute) and func.attr == "__init__" and isinstance(func.value, ast.Call)
        if not is_init or cls is None or not isinstance(cls.node, ast.ClassDef):
            return None
        assert isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call)
        is_super = last_name(func.value.func) == "super"
        return self._rule_of_bases(self.names, cls.node, cls.parent or cls) if is_super else None

    def _hand_on(self, call: ast.Call, scope: Scope) -> None:
        """Keep what a call gives to parameters of the project's own functions that are given to packages."""
        called = self._called_function(call.func, scope)
        if called is None:
            return
        names, function, is_bound = called
        rules = self._parameter_rules(names).get(function.lineno, {})
        if not rules:
            return
        positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][is_bound:]
        given = [(name, value) for name, value in zip(positional, call.args, strict=False)]
        given += [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        for name, value in given:
            rule, is_own = rules.get(name, (None, False))
            if rule is None or isinstance(value, ast.Starred):
                continue
            if is_own:
                self._device(value, scope, rule)
            else:
                place = self.file.bounds(value)
                self.mixed[value] = _Given(place, (_Value(place, self._is_device(value, scope)),), rule)

    def _called_function(self, func: ast.expr, scope: Scope) -> tuple[Names, Function, bool] | None:
        """The project's own function that a call runs, perhaps an `__init__`, with the names of its file; True where
        its first parameter is given without being written."""
        made = self.names.definition(func, scope)
        if made is not None:
            return _own_function(made)
        if not isinstance(func, ast.Attribute):
            return None
        if is_super(func.value):
            cls = scope.enclosing_class()
            for base in cls.node.bases if cls is not None and isinstance(cls.node, ast.ClassDef) else ():
                above = self.names.definition(base, cls.parent or cls) if cls is not None else None
                if above is not None:
                    return _method(above, func.attr)
            return None
        is_made = isinstance(func.value, ast.Call)
        of_class = self.names.definition(func.value.func if isinstance(func.value, ast.Call) else func.value, scope)
        found = _method(of_class, func.attr) if of_class is not None else None
        return found and (found[0], found[1], found[2] and (is_made or is_classmethod(found[1])))

    def _parameter_rules(self, names: Names) -> _ParameterRules:
        """The rules for the parameters of functions in this file, or in another that imports such a package itself."""
        if names.path == self.names.path:
            return self._parameters_given()
        if imported_packages(names.file).isdisjoint(self.table.foreign_packages):
            return {}

        def ask() -> _ParameterRules:
            other = _ForeignDevices(names, self.table)
            other.collect()
            return other._parameters_given()

        return names.project.settled(("foreign parameters", names.path), ask) or {}

    def _parameters_given(self) -> _ParameterRules:
        found: dict[int, dict[str, tuple[Rule, bool]]] = {}
        for node, (scope, rule) in {**self.passed, **self.given}.items():
            bound = scope.lookup(node.id) if isinstance(node, ast.Name) else None
            function = bound[0].node if bound is not None else None
            if bound is not None and isinstance(function, FUNCTIONS) and isinstance(bound[1][0], Parameter):
                found.setdefault(function.lineno, {})[bound[1][0].node.arg] = rule, node in self.own
        return found

    def _call(self, call: ast.Call, scope: Scope, rule: Rule) -> None:
        func = call.func
        # What the methods of such objects give may be tensors: `reader.get_batch(indexes).cuda()`.
        is_move = isinstance(func, ast.Attribute) and func.attr in _MOVES
        if is_move and isinstance(func, ast.Attribute) and self._rule_of(call, scope, depth=1) is not None:
            self.places.append((name_bounds(self.file, func), rule))
        for argument in arguments(call):
            self._device(argument_value(argument), scope, rule)

    def _device(self, value: ast.expr, scope: Scope, rule: Rule) -> None:
        """Keep the places of strings and choices in what a package is given; not those in calls of other code."""
        if isinstance(value, (*_PLAIN, *_CHOICES)):
            self.places.append((self.file.bounds(value), rule))
            self.given.update(
                (node, (scope, rule)) for node in ast.walk(value) if isinstance(node, ast.expr) and _is_read(node)
            )
        elif isinstance(value, (ast.Dict, ast.List, ast.Tuple)):
            for each in value.values if isinstance(value, ast.Dict) else value.elts:
                self._device(each, scope, rule)
        elif isinstance(value, ast.Call):
            self._called(value, scope, rule)
        elif _is_read(value):
            self.given[value] = (scope, rule)

    def _called(self, call: ast.Call, scope: Scope, rule: Rule) -> None:
        qualified = self.names.qualified(call.func, scope)
        of_text = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, _PLAIN)  # "cuda:{}".format(i)
        if qualified in _DEVICES or of_text:
            self.places.append((self.file.bounds(call), rule))
        elif last_name(call.func) == "dict":
            for keyword in call.keywords:
                self._device(keyword.value, scope, rule)

    # Names

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

    def _default(self, parameter: Parameter, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        """The default of a parameter: its callers may give others, as they may set an attribute."""
        given = defaults(scope.node) if isinstance(scope.node, (*FUNCTIONS, ast.Lambda)) else ()
        return ((value, scope.parent or scope) for each, value in given if each is parameter.node)

    def _values(self, node: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        """The values that a name or an attribute of `self` is given, the default of a parameter among them."""
        if isinstance(node, ast.Name):
            found = scope.lookup(node.id)
            for binding in found[1] if found is not None else ():
                if isinstance(binding, Assigned) and binding.whole is not None and found is not None:
                    yield binding.whole, found[0]
                elif isinstance(binding, Parameter) and found is not None:
                    yield from self._default(binding, found[0])
        elif isinstance(node, ast.Attribute):
            cls = scope.enclosing_class()
            for assigned, method in cls.attributes.get(node.attr, ()) if cls is not None else ():
                if assigned.whole is not None:
                    yield assigned.whole, method


def _is_read(node: ast.AST) -> bool:
    """Return whether a node is a name, or an attribute of `self`, that is read."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and is_self(node.value)
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _own_function(made: Definition) -> tuple[Names, Function, bool] | None:
    node = made.bound.node
    return _method(made, "__init__") if isinstance(node, ast.ClassDef) else (made.names, node, False)


def _method(cls: Definition, name: str, depth: int = _MAX_STEPS) -> tuple[Names, Function, bool] | None:
    """The method that a class of the project defines or inherits from another one; None where several may be meant."""
    node, scope = cls.bound.node, cls.bound.scope
    if not isinstance(node, ast.ClassDef):
        return None
    bound = scope.bindings.get(name, ())
    if bound:
        method = bound[0].node if len(bound) == 1 and isinstance(bound[0], Defined) else None
        return (cls.names, method, not is_static(method)) if isinstance(method, FUNCTIONS) else None
    for base in node.bases if depth else ():
        above = cls.names.definition(base, scope.parent or scope)
        found = _method(above, name, depth - 1) if above is not None else None
        if found is not None:
            return found
    return None
