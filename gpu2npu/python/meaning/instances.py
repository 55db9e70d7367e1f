"""The classes that an object is of, by their qualified names: those of packages outside the project too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import OTHER, UNKNOWN, Own, ValueTypes
from gpu2npu.python.tree.scopes import Assigned, Parameter, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS
from gpu2npu.python.tree.syntax_tree import alternatives

_MAX_BASES = 10


class Instances:
    """Judges for the expressions of one file whether they are objects of a class or of its subclasses."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.types = ValueTypes(names)

    def is_one(self, node: ast.expr, scope: Scope, wanted: str) -> bool | None:
        """Return whether the value of an expression is an object of the class with a qualified name, or of a class of
        the project that derives from it; None where nothing tells."""
        classes = set(self.classes(node, scope))
        if wanted in classes:
            return True
        types = self.types.of(node, scope)
        own = [each for each in types if isinstance(each, Own)]
        if any(derives(each.names, each.cls, wanted) for each in own):
            return True
        is_known = bool(own or classes) or (bool(types) and UNKNOWN not in types and OTHER not in types)
        return False if is_known or types == {OTHER} else None

    def classes(self, node: ast.expr, scope: Scope) -> Iterator[str]:
        """The qualified names of the classes that a call, an assignment or an annotation gives."""
        for call in self.names.calls(node, scope):
            callee = self.names.qualified(call.func, scope)
            if callee is not None and callee.rpartition(".")[2][:1].isupper():
                yield callee
            yield from self._returned(call, scope)
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        for binding in found[1] if found is not None else ():
            if isinstance(binding, (Parameter, Assigned)) and binding.annotation is not None:
                for each in alternatives(binding.annotation):
                    name = self.names.qualified(each, found[0] if found is not None else scope)
                    if name is not None:
                        yield name

    def _returned(self, call: ast.Call, scope: Scope) -> Iterator[str]:
        """The classes that a function of the project says it returns."""
        found = self.names.definition(call.func, scope)
        if found is None or not isinstance(found.bound.node, FUNCTIONS) or found.bound.node.returns is None:
            return
        outer = found.bound.scope.parent or found.bound.scope
        for each in alternatives(found.bound.node.returns):
            name = found.names.qualified(each, outer)
            if name is not None:
                yield name


def derives(names: Names, cls: Scope, wanted: str, depth: int = _MAX_BASES) -> bool:
    """Return whether a class of a file has the class of a qualified name among its bases, or theirs."""
    if not isinstance(cls.node, ast.ClassDef) or not depth:
        return False
    outer = cls.parent or cls
    for written in cls.node.bases:
        base = written.value if isinstance(written, ast.Subscript) else written  # Base[T]
        if names.qualified(base, outer) == wanted:
            return True
        found = names.definition(base, outer)
        if (
            found is not None
            and found.bound.scope is not cls
            and derives(found.names, found.bound.scope, wanted, depth - 1)
        ):
            return True
    return False
