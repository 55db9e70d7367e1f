"""The types that the value of an expression may have, as far as a project's own text says.

They follow assignments, annotations, `self.x`, returns, the library's own functions, and definitions in other files of
the project. Nothing is guessed from a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from gpu2npu.python.meaning.live_names import live_bindings
from gpu2npu.python.meaning.mocks import makes_mock, spec
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Parameter, Scope, value_of
from gpu2npu.python.tree.syntax import FUNCTIONS, elements, is_none, is_self, is_static, last_name, returned_values
from gpu2npu.python.tree.syntax_tree import alternatives

TENSOR = "tensor"
TENSORS = "tensors"  # a tuple or list of tensors
OTHER = "other"  # known not to be one of the library's: a list, a number, an object of another package
UNKNOWN = "unknown"


class Own(NamedTuple):
    """A class of the project, and the names of the file that defines it."""

    names: Names
    cls: Scope


# A type is one of the constants above, the qualified name of a class of the library, or a class of the project. An
# empty set is the type of None.
Types = frozenset[str | Own]
_UNKNOWN: Types = frozenset({UNKNOWN})
_OTHER: Types = frozenset({OTHER})
_TENSOR: Types = frozenset({TENSOR})
_TENSORS: Types = frozenset({TENSORS})
_NOTHING: Types = frozenset()

_MAX_DEPTH = 25  # steps of assignments, calls and files after which the answer is "unknown"
_MOST_BASES = 10  # of classes, one the base of the other
_MAPPING = frozenset({"filter", "map"})
_MOST_BINDINGS = 50  # of a name that is bound more often, all bindings count at each of its uses
_LITERALS = (
    ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr, ast.GeneratorExp, ast.Lambda,
    ast.Constant,
)  # fmt: skip
_BUILTINS = frozenset(
    {"list", "dict", "set", "tuple", "str", "int", "float", "bool", "len", "sorted", "range", "open", "zip",
     "enumerate", "map", "filter", "frozenset", "bytes", "repr", "type", "isinstance"}
)  # fmt: skip
_EMPTY_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})


class ValueTypes:
    """Gives the types of the expressions of one file."""

    def __init__(self, names: Names, depth: int = 0) -> None:
        self.names = names
        self.library = names.project.library
        self._known: dict[tuple[object, ...], Types] = {}
        self._depth = depth

    def of(self, node: ast.AST | None, scope: Scope) -> Types:
        """Every type that the value of an expression may have."""
        if node is None or self._depth > _MAX_DEPTH:
            return _UNKNOWN
        self._depth += 1
        try:
            return self._by_form(node, scope)
        finally:
            self._depth -= 1

    def is_tensor(self, node: ast.AST, scope: Scope) -> bool:
        """Return whether the value is a tensor and nothing else."""
        return self.of(node, scope) == _TENSOR

    def _by_form(self, node: ast.AST, scope: Scope) -> Types:
        if isinstance(node, ast.Name):
            return self._name(node, scope)
        if isinstance(node, ast.Call):
            return self._called(node, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.BinOp):
            sides = self.of(node.left, scope) | self.of(node.right, scope)
            return _TENSOR if TENSOR in sides else _UNKNOWN if UNKNOWN in sides else _OTHER
        if isinstance(node, ast.UnaryOp):
            return _OTHER if isinstance(node.op, ast.Not) else self.of(node.operand, scope)
        if isinstance(node, ast.Compare):
            return _TENSOR if self._compares_tensors(node, scope) else _UNKNOWN
        if isinstance(node, ast.Subscript):
            return _element(self.of(node.value, scope), whole=isinstance(node.slice, ast.Slice))
        if isinstance(node, ast.IfExp):
            return self.of(node.body, scope) | self.of(node.orelse, scope)
        if isinstance(node, ast.BoolOp):
            return _union(self.of(value, scope) for value in node.values)
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return self.of(node.value, scope)
        if isinstance(node, ast.Tuple):
            return _TENSORS if node.elts and all(self.is_tensor(each, scope) for each in node.elts) else _OTHER
        if is_none(node):
            return _NOTHING
        return _OTHER if isinstance(node, _LITERALS) else _UNKNOWN

    def _compares_tensors(self, node: ast.Compare, scope: Scope) -> bool:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return False
        return any(TENSOR in self.of(side, scope) for side in (node.left, *node.comparators))

    # Names

    def _name(self, node: ast.Name, scope: Scope) -> Types:
        found = scope.lookup(node.id)
        if found is None:
            return _UNKNOWN
        owner, bindings = found
        if node.id in ("self", "cls") and isinstance(bindings[0], Parameter):
            return self.bound(bindings[0], owner)
        is_followed = owner is scope and 1 < len(bindings) <= _MOST_BINDINGS
        given = [each for each in bindings if not _changes(each)] if is_followed else []
        reaching = live_bindings(self.names.file, given, owner, node) or bindings
        key = (owner, node.id, tuple(reaching) if reaching is not bindings else None)
        if key not in self._known:
            self._known[key] = _NOTHING  # x = x.float() says nothing new about x
            self._known[key] = _union(self.bound(binding, owner) for binding in reaching)
        return self._known[key]

    def bound(self, binding: Binding, owner: Scope) -> Types:
        """Every type of what a binding of a scope gives a name."""
        if isinstance(binding, Assigned):
            return self._assigned(binding, owner)
        if isinstance(binding, Parameter) and binding.node.arg in ("self", "cls"):
            cls = owner.enclosing_class()
            is_given = cls is not None and not (isinstance(owner.node, FUNCTIONS) and is_static(owner.node))
            return frozenset({Own(self.names, cls)}) if cls is not None and is_given else _UNKNOWN
        if isinstance(binding, Parameter) and binding.annotation is not None and binding.position >= 0:
            return self.annotated(binding.annotation, owner)
        if isinstance(binding, Parameter) and (mapped := self._mapped(binding, owner)):
            return _union(self.of(each, owner.parent or owner) for each in mapped)
        if isinstance(binding, Defined) and isinstance(binding.node, ast.ClassDef):
            return frozenset({Own(self.names, binding.scope)})
        return _UNKNOWN

    def _mapped(self, binding: Parameter, owner: Scope) -> Sequence[ast.expr]:
        """The values of a lambda's parameter in `map(lambda v: ..., [a, b])`. A list that has a name may grow."""
        call = self.names.file.parents[owner.node] if isinstance(owner.node, ast.Lambda) else None
        if not isinstance(call, ast.Call) or last_name(call.func) not in _MAPPING or call.args[:1] != [owner.node]:
            return ()
        given = next(iter(call.args[binding.position + 1 :]), None) if binding.position >= 0 else None
        named = (owner.parent or owner).only_value(given.id) if isinstance(given, ast.Name) else None
        return elements(named if isinstance(named, ast.Tuple) else given)

    def _assigned(self, binding: Assigned, scope: Scope) -> Types:
        if _changes(binding):
            return _NOTHING
        if binding.annotation is not None:
            return self.annotated(binding.annotation, scope)
        value = self.of(binding.value, scope)
        return _element(value) if binding.is_part else value

    # Annotations

    def annotated(self, annotation: ast.expr | None, scope: Scope) -> Types:
        """The types that an annotation allows."""
        allowed = alternatives(annotation)
        return _union(self._annotated(each, scope) for each in allowed) if allowed else _UNKNOWN

    def _annotated(self, node: ast.expr, scope: Scope) -> Types:
        if is_none(node):
            return _NOTHING
        if isinstance(node, ast.Subscript):
            return self._generic(node, scope)
        if isinstance(node, ast.Name) and node.id in _BUILTINS:
            return _OTHER
        alias = self.names.binding(node, scope)
        if alias is not None and isinstance(alias.bound, Assigned):  # Adjacency = Union[Tensor, SparseTensor]
            inner = self._within(alias.names)
            ask = partial(inner.annotated, value_of(alias.bound), alias.names.file.module)
            return self.names.project.once(("annotated", alias.bound), ask) or _UNKNOWN
        return self._instance(node, scope)

    def _generic(self, node: ast.Subscript, scope: Scope) -> Types:
        name = last_name(node.value)
        inner = elements(node.slice) if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = (self.annotated(part, scope) for part in inner if getattr(part, "value", None) is not Ellipsis)
        if name in ("Annotated", "Final", "ClassVar"):
            return next(parts, _UNKNOWN)
        if name in ("list", "tuple", "List", "Tuple", "Sequence", "Iterable"):
            return _TENSORS if all(part == _TENSOR for part in parts) else _OTHER
        return _OTHER if name in ("dict", "Dict", "set", "Set", "Callable") else _UNKNOWN

    # Members

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Types:
        if is_self(node.value):
            cls = scope.enclosing_class()
            if cls is not None:
                return self._own_attribute(node.attr, cls)
        owner = self.of(node.value, scope)
        if owner == _TENSOR:
            return frozenset(self.library.tensor_attribute(node.attr)) or _UNKNOWN
        if TENSORS in owner and node.attr in self.library.tensor_fields:
            return _TENSOR
        return _UNKNOWN

    def _own_attribute(self, name: str, cls: Scope) -> Types:
        key = (cls, "self", name)
        if key not in self._known:
            self._known[key] = _NOTHING
            found = [self._assigned(assigned, scope) for assigned, scope in cls.attributes.get(name, ())]
            found += [self._assigned(each, cls) for each in cls.bindings.get(name, ()) if isinstance(each, Assigned)]
            self._known[key] = _union(found) if found else _UNKNOWN
        return self._known[key]

    # Calls

    def _called(self, node: ast.Call, scope: Scope) -> Types:
        function = node.func
        if isinstance(function, ast.Name) and scope.lookup(function.id) is None:
            if function.id in _BUILTINS:
                return _OTHER
            cls = scope.enclosing_class() if function.id == "super" else None
            if cls is not None:
                return frozenset(self.bases(cls)) or _UNKNOWN
        known = self._instance(function, scope)
        if known != _UNKNOWN:
            return known
        if (like := spec(node)) is not None and makes_mock(node, self.names.qualified(function, scope)):
            return frozenset(each for each in self._instance(like, scope) if isinstance(each, Own)) or _UNKNOWN
        if isinstance(function, ast.Attribute):
            return self._method_result(function, scope)
        return self._forward(self.of(function, scope)) if isinstance(function, ast.Name) else _UNKNOWN

    def _method_result(self, function: ast.Attribute, scope: Scope) -> Types:
        if is_self(function.value):
            called = self._forward(self._attribute(function, scope))
            return called if called != _UNKNOWN else self._own_method(function.attr, scope)
        owner = self.of(function.value, scope)
        if owner == _TENSOR:
            return frozenset(self.library.tensor_method(function.attr)) or _UNKNOWN
        own = [kind for kind in owner if isinstance(kind, Own)]
        if own and len(own) == len(owner):
            found = _union(self._within(kind.names).method_result(kind.cls, function.attr) for kind in own)
            if UNKNOWN not in found:
                return found
        if function.attr in self.library.fluent and UNKNOWN not in owner and OTHER not in owner:
            return owner
        return _OTHER if owner == _OTHER else _UNKNOWN

    def method_result(self, cls: Scope, name: str, depth: int = _MOST_BASES) -> Types:
        """The types of what a method of a class of this file, or one that it inherits, gives."""
        for binding in cls.bindings.get(name, ()):
            if isinstance(binding, Defined):
                return self._returned(binding)
        bases = [base for base in (self.bases(cls) if depth else ()) if isinstance(base, Own)]
        found = (self._within(base.names).method_result(base.cls, name, depth - 1) for base in bases)
        return next((types for types in found if types != _UNKNOWN), _UNKNOWN)

    def _own_method(self, name: str, scope: Scope) -> Types:
        cls = scope.enclosing_class()
        if cls is not None and name in self.library.fluent and name not in cls.bindings:
            return frozenset({Own(self.names, cls)})
        return self.method_result(cls, name) if cls is not None else _UNKNOWN

    def _forward(self, types: Types) -> Types:
        """The types of what calling an object of these types gives."""
        results: set[str | Own] = set()
        for kind in types:
            if isinstance(kind, Own):
                results |= self._within(kind.names).forward_result(kind.cls)
            else:
                results |= self.library.layer_result(kind) if self.library.has(kind) else _UNKNOWN
        return frozenset(results) or _UNKNOWN

    def forward_result(self, cls: Scope) -> Types:
        """The types of what calling an object of a class of this file gives."""
        for name in self.library.object_calls:
            for binding in cls.bindings.get(name, ()):
                if isinstance(binding, Defined):
                    return self._returned(binding)
        ask = partial(self._forward, frozenset(self.bases(cls)))
        return self.names.project.once(("forward", cls), ask) or _UNKNOWN

    def _instance(self, node: ast.AST, scope: Scope) -> Types:
        """The types of what calling `node`, or being annotated by it, gives."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return _UNKNOWN
        qualified = self.names.qualified(node, scope)
        if qualified is not None and self.library.has(qualified):
            return self._of_library(qualified)
        found = self.names.definition(node, scope)
        if found is None:
            foreign = qualified is not None and qualified.partition(".")[0] in self.library.foreign
            return _OTHER if foreign else _UNKNOWN
        if isinstance(found.bound.node, ast.ClassDef):
            return frozenset({Own(found.names, found.bound.scope)})
        return self._within(found.names)._returned(found.bound)

    def _of_library(self, qualified: str) -> Types:
        if qualified in self.library.tensors:
            return _TENSOR
        if qualified.rpartition(".")[2][:1].isupper():
            return frozenset({qualified})
        return frozenset(self.library.result(qualified)) or _UNKNOWN

    def _returned(self, function: Defined) -> Types:
        node = function.node
        if not isinstance(node, FUNCTIONS):
            return _UNKNOWN
        if node.returns is not None:
            return self.annotated(node.returns, function.scope.parent or function.scope)
        key = (node, "returned")
        if key not in self._known:
            self._known[key] = _NOTHING
            ask = partial(self._values_returned, node, function.scope)
            self._known[key] = self.names.project.once(("returned", node), ask) or _NOTHING
        return self._known[key]

    def _values_returned(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Types:
        found = [self.of(value, scope) for value in returned_values(node)]
        return _union(found) if found else _UNKNOWN

    def _within(self, names: Names) -> ValueTypes:
        return self if names is self.names else ValueTypes(names, self._depth + 1)

    # Classes

    def bases(self, cls: Scope) -> list[str | Own]:
        """The types of the objects of the classes that a class of this file names as its bases; UNKNOWN for one from
        elsewhere, and nothing for those that define nothing."""
        found: list[str | Own] = []
        for written in cls.node.bases if isinstance(cls.node, ast.ClassDef) else ():
            base = written.value if isinstance(written, ast.Subscript) else written  # Base[T]
            if last_name(base) in _EMPTY_BASES:
                continue
            kinds = self._instance(base, cls.parent or cls)
            found += (UNKNOWN if kind == OTHER or kind == Own(self.names, cls) else kind for kind in kinds)
        return found

    def owners(self, types: Types, member: str) -> set[str]:
        """The types of the library that a member of a value of these types is looked up in; OTHER where it is not one
        of them: where a class of the project defines it, for instance."""
        found: set[str] = set()
        for kind in types:
            if isinstance(kind, Own):
                found |= self._within(kind.names)._class_owners(kind.cls, member)
            else:
                found.add(kind)
        return found

    def _class_owners(self, cls: Scope, member: str) -> set[str]:
        if member in cls.bindings or member in cls.attributes:
            return {OTHER}
        ask = partial(self.owners, frozenset(self.bases(cls)), member)
        return self.names.project.once(("owners", cls, member), ask) or {OTHER}


def _element(owner: Types, whole: bool = False) -> Types:
    """The types of an element of a value, or with `whole` of a slice of it."""
    found: set[str | Own] = set()
    for kind in owner:
        if kind in (TENSOR, TENSORS):
            found.add(kind if whole else TENSOR)
        else:
            found.add(OTHER if kind == OTHER and whole else UNKNOWN)
    return frozenset(found)


def _union(types: Iterable[Types]) -> Types:
    return frozenset().union(*types)


def _changes(binding: Binding) -> bool:
    """`x += 1` and `del x`, which say nothing new about x"""
    return isinstance(binding, Assigned) and isinstance(binding.statement, (ast.AugAssign, ast.Name))
