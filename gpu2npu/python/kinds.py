"""What an object is, as far as a project's own text tells: a tensor, a layer, an object of a class of the project."""

from __future__ import annotations

import ast
from functools import partial

from gpu2npu.python.names import Names
from gpu2npu.python.scopes import Assigned, Binding, Defined, Parameter, Scope
from gpu2npu.python.syntax import FUNCTIONS, last_name, returned_values, string_value
from gpu2npu.python.tree import parse_expression

TENSOR = "tensor"
MODULE = "module"
OWN = "own"  # an object whose class, the project's and not a Module, defines the member itself
UNKNOWN = "unknown"
ANY_KIND = frozenset({TENSOR, MODULE, UNKNOWN})

Kinds = frozenset[str]
_UNKNOWN: Kinds = frozenset({UNKNOWN})
_OWN: Kinds = frozenset({OWN})
_NOTHING: Kinds = frozenset()
# How many steps of assignments, calls and files are followed before the answer is "unknown".
_MAX_DEPTH = 30
_MAX_BASES = 10


class ObjectKinds:
    """Gives the kinds of the expressions of one file that a member is looked up on."""

    def __init__(self, names: Names, depth: int = 0) -> None:
        self.names = names
        self.library = names.project.library
        self._known: dict[tuple[Scope, str, str], Kinds] = {}
        self._depth = depth

    def of(self, node: ast.AST, scope: Scope, member: str) -> Kinds:
        """Every kind the expression may be; {"unknown"} when nothing tells."""
        return self._expression(node, scope, member) or _UNKNOWN

    def _expression(self, node: ast.AST, scope: Scope, member: str) -> Kinds:
        """The same, and nothing for an expression that says nothing new, such as None."""
        if self._depth > _MAX_DEPTH:
            return _UNKNOWN
        self._depth += 1
        try:
            return self._by_form(node, scope, member)
        finally:
            self._depth -= 1

    def _by_form(self, node: ast.AST, scope: Scope, member: str) -> Kinds:
        if isinstance(node, ast.Call):
            return self._called(node, scope, member)
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, member)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope, member)
        if isinstance(node, ast.IfExp):
            return self._expression(node.body, scope, member) | self._expression(node.orelse, scope, member)
        if isinstance(node, (ast.Await, ast.NamedExpr)):
            return self._expression(node.value, scope, member)
        return _UNKNOWN

    def _name(self, name: str, scope: Scope, member: str) -> Kinds:
        found = scope.lookup(name)
        if found is None:
            return _UNKNOWN
        owner, bindings = found
        if name in ("self", "cls") and any(isinstance(binding, Parameter) for binding in bindings):
            cls = owner.enclosing_class()
            return self.of_class(cls, member) if cls is not None else _UNKNOWN
        key = (owner, name, member)
        if key not in self._known:
            self._known[key] = _NOTHING  # x = x.float() says nothing new about x
            self._known[key] = self._bound(bindings, owner, member)
        return self._known[key]

    def _bound(self, bindings: list[Binding], owner: Scope, member: str) -> Kinds:
        kinds: set[str] = set()
        for binding in bindings:
            if isinstance(binding, Parameter):
                kinds |= self._annotated(binding.annotation, owner, member)
            elif isinstance(binding, Assigned):
                kinds |= self._assigned(binding, owner, member)
            elif isinstance(binding, Defined) and isinstance(binding.node, ast.ClassDef):
                kinds |= self.of_class(binding.scope, member)
            else:
                kinds.add(UNKNOWN)
        return frozenset(kinds)

    def _assigned(self, binding: Assigned, scope: Scope, member: str) -> Kinds:
        if binding.annotation is not None:
            return self._annotated(binding.annotation, scope, member)
        if binding.whole is None:
            return _UNKNOWN
        return _NOTHING if _is_none(binding.whole) else self._expression(binding.whole, scope, member)

    def _attribute(self, node: ast.Attribute, scope: Scope, member: str) -> Kinds:
        cls = scope.enclosing_class()
        if cls is None or not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return _UNKNOWN
        kinds = (self._assigned(each, method, member) for each, method in cls.attributes.get(node.attr, ()))
        return frozenset().union(*kinds) or _UNKNOWN

    def _annotated(self, annotation: ast.expr | None, scope: Scope, member: str) -> Kinds:
        text = string_value(annotation)
        if text is not None:
            annotation = parse_expression(text)
        if annotation is None:
            return _UNKNOWN
        if isinstance(annotation, ast.BinOp):  # Kit | None
            return self._annotated(annotation.left, scope, member) | self._annotated(annotation.right, scope, member)
        if _is_none(annotation):
            return _NOTHING
        if isinstance(annotation, ast.Subscript):
            if last_name(annotation.value) not in ("Optional", "Union"):
                return _UNKNOWN
            choices = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return frozenset().union(*(self._annotated(choice, scope, member) for choice in choices))
        alias = self.names.binding(annotation, scope)
        if alias is not None and isinstance(alias.bound, Assigned):  # Adj = Union[Tensor, Kit]
            inner = ObjectKinds(alias.names, self._depth + 1)
            value, module = alias.bound.whole, alias.names.file.module
            ask = partial(inner._annotated, value, module, member)
            return self.names.project.once(("alias", alias.bound, member), ask) or _UNKNOWN
        return self._instance(annotation, scope, member)

    def _called(self, node: ast.Call, scope: Scope, member: str) -> Kinds:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "super":
            cls = scope.enclosing_class()
            kinds = self.of_class(cls, member) if cls is not None else _UNKNOWN
            # The override itself is the project's; what super() reaches is the base's.
            return kinds if MODULE in kinds else _UNKNOWN
        if isinstance(function, ast.Attribute) and function.attr in self.library.fluent:
            return self._expression(function.value, scope, member)
        return self._instance(function, scope, member)

    def _instance(self, function: ast.expr, scope: Scope, member: str) -> Kinds:
        """The kind of what calling `function` (or being annotated by it) gives."""
        if not isinstance(function, (ast.Name, ast.Attribute)):
            return _UNKNOWN
        definition = self.names.definition(function, scope)
        if definition is not None:
            inner = ObjectKinds(definition.names, self._depth + 1)
            if isinstance(definition.bound.node, ast.ClassDef):
                return inner.of_class(definition.bound.scope, member)
            ask = partial(inner._returned, definition.bound, member)
            return self.names.project.once(("returned", definition.bound, member), ask) or _NOTHING
        qualified = self.names.qualified(function, scope) or ""
        if qualified in self.library.tensors:
            return frozenset({TENSOR})
        if self.library.is_module_class(qualified):
            return frozenset({MODULE})
        return frozenset({TENSOR}) if self.library.is_tensor_factory(qualified) else _UNKNOWN

    def _returned(self, function: Defined, member: str) -> Kinds:
        node = function.node
        assert isinstance(node, FUNCTIONS)
        if node.returns is not None:
            return self._annotated(node.returns, function.scope.parent or function.scope, member)
        kinds = (self._expression(value, function.scope, member) for value in returned_values(node))
        return frozenset().union(*kinds) or _UNKNOWN

    def has_own_class(self, member: str, read: bool) -> bool:
        """Whether some class of this file that is not a Module or Tensor defines the member: as a method, or, with
        `read`, as an attribute or property."""
        for cls in self.names.file.scopes.values():
            if cls.kind != "class":
                continue
            called = any(
                isinstance(binding, Defined) and not is_property(binding) for binding in cls.bindings.get(member, ())
            )
            if (holds_data(cls, member) if read else called) and self.of_class(cls, member) == _OWN:
                return True
        return False

    def of_class(self, cls: Scope, member: str, depth: int = _MAX_BASES) -> Kinds:
        """The kind of the objects of a class of this file: module, tensor, own (the class or a base in the project
        defines the member), or unknown."""
        assert isinstance(cls.node, ast.ClassDef)
        if holds_data(cls, member):
            return _OWN
        kinds: set[str] = set()
        for base in cls.node.bases:
            kinds |= self._of_base(base, cls, member, depth)
        kinds.discard(UNKNOWN)
        if kinds & {MODULE, TENSOR}:
            return frozenset(kinds & {MODULE, TENSOR})
        return _OWN if OWN in kinds or member in cls.bindings or member in cls.attributes else _UNKNOWN

    def _of_base(self, base: ast.expr, cls: Scope, member: str, depth: int) -> Kinds:
        outer = cls.parent or cls
        qualified = self.names.qualified(base, outer) or ""
        if qualified in self.library.tensors:
            return frozenset({TENSOR})
        if qualified in self.library.modules or self.library.is_module_class(qualified):
            return frozenset({MODULE})
        parent = self.names.definition(base, outer) if depth else None
        if parent is None or not isinstance(parent.bound.node, ast.ClassDef) or parent.bound.scope is cls:
            return _NOTHING
        return ObjectKinds(parent.names, self._depth).of_class(parent.bound.scope, member, depth - 1)


def holds_data(cls: Scope, member: str) -> bool:
    """Whether a class has a property or an attribute of that name: the project's, even where the class is a Module."""
    return member in cls.attributes or any(
        isinstance(binding, Assigned) or (isinstance(binding, Defined) and is_property(binding))
        for binding in cls.bindings.get(member, ())
    )


def is_property(binding: Defined) -> bool:
    """Whether a function is decorated to be read like an attribute."""
    return any((last_name(decorator) or "").endswith("property") for decorator in binding.node.decorator_list)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
