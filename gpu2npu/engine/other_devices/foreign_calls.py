"""Calls of packages that compute without PyTorch and know no NPU, and of the objects that they give."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.module_names import Definition
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.scopes import Assigned, Parameter, Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_value,
    arguments,
    defaults,
    is_self,
    is_super,
    string_value,
)
from gpu2npu.rulebook.rule import Rule

_MAX_STEPS = 10
_MAX_CALLS = 3


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


class ForeignCalls(Struct, frozen=True):
    """Finds the rule for the foreign package that a call in one file reaches."""

    names: Names
    table: RuleTable

    def rule_of(
        self, call: ast.Call, scope: Scope, depth: int = _MAX_CALLS, path: tuple[ast.Call, ...] = ()
    ) -> Rule | None:
        """The rule for the package whose function, or method of what it gave, is called. `path` are the calls that
        lead to this one: `model = model.fit()` says nothing of what `model` is."""
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
            values = values_of(receiver, scope) if receiver is not None and is_read(receiver) else ()
            makers = [(value, its_scope) for value, its_scope in values if isinstance(value, ast.Call)]
        path = (*path, call)
        rules = {self.rule_of(each, its_scope, depth - 1, path) for each, its_scope in makers if each not in path}
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
        is_init = isinstance(func, ast.Attribute) and func.attr == "__init__" and is_super(func.value)
        if not is_init or cls is None or not isinstance(cls.node, ast.ClassDef):
            return None
        return self._rule_of_bases(self.names, cls.node, cls.parent or cls)


def _default(parameter: Parameter, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """The default of a parameter: its callers may give others, as they may set an attribute."""
    given = defaults(scope.node) if isinstance(scope.node, (*FUNCTIONS, ast.Lambda)) else ()
    return ((value, scope.parent or scope) for each, value in given if each is parameter.node)


def values_of(node: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """The values that a name or an attribute of `self` is given, the default of a parameter among them."""
    if isinstance(node, ast.Name):
        found = scope.lookup(node.id)
        for binding in found[1] if found is not None else ():
            if isinstance(binding, Assigned) and binding.whole is not None and found is not None:
                yield binding.whole, found[0]
            elif isinstance(binding, Parameter) and found is not None:
                yield from _default(binding, found[0])
    elif isinstance(node, ast.Attribute):
        cls = scope.enclosing_class()
        for assigned, method in cls.attributes.get(node.attr, ()) if cls is not None else ():
            if assigned.whole is not None:
                yield assigned.whole, method


def is_read(node: ast.AST) -> bool:
    """Return whether a node is a name, or an attribute of `self`, that is read."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and is_self(node.value)
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
