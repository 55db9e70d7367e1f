"""What an object is, as far as the project's own text tells: a tensor, a module, an object of a class of the user's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from gpu2npu.engine.names import Names
from gpu2npu.engine.scopes import Assigned, Binding, Defined, Parameter, Scope
from gpu2npu.engine.tree import children, last_name, string_value

TENSOR = "tensor"
MODULE = "module"
OWN = "own"  # an object whose class, the user's and no torch Module, defines the member itself
UNKNOWN = "unknown"
ANY_RECEIVER = frozenset({TENSOR, MODULE, UNKNOWN})

# Methods of tensors and modules that give back the same kind of object.
_FLUENT = frozenset(
    {"to", "float", "half", "double", "bfloat16", "long", "int", "bool", "eval", "train", "requires_grad_", "detach",
     "clone", "contiguous", "type", "cpu", "cuda", "npu", "share_memory", "apply", "pin_memory", "unsqueeze",
     "squeeze", "view", "reshape", "transpose", "permute", "flatten"}
)  # fmt: skip
_TENSOR_BASES = frozenset({"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_MODULE_BASES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
# How many steps of assignments, calls and files are followed before the answer is "unknown".
_MAX_DEPTH = 30
# Members of torch that are no tensor factories.
_NOT_TENSORS = frozenset({"device", "dtype", "load", "compile", "Generator", "Size", "finfo", "iinfo"})


@dataclass(eq=False)
class Receivers:
    """Tells the kind of an expression that a member is looked up on."""

    names: Names
    _known: dict[tuple[int, str, str], frozenset[str]] = field(default_factory=dict)
    _depth: int = 0

    def kinds(self, node: cst.CSTNode, scope: Scope, member: str) -> frozenset[str]:
        """Every kind the expression may be; {"unknown"} when nothing tells."""
        return self._expression(node, scope, member) or frozenset({UNKNOWN})

    def _expression(self, node: cst.CSTNode, scope: Scope, member: str) -> frozenset[str]:
        """The same, and nothing for an expression that says nothing new, such as None."""
        if self._depth > _MAX_DEPTH:
            return frozenset({UNKNOWN})
        self._depth += 1
        try:
            return self._by_form(node, scope, member)
        finally:
            self._depth -= 1

    def _by_form(self, node: cst.CSTNode, scope: Scope, member: str) -> frozenset[str]:
        if isinstance(node, cst.Call):
            return self._called(node, scope, member)
        if isinstance(node, cst.Name):
            return self._name(node.value, scope, member)
        if isinstance(node, cst.Attribute):
            return self._attribute(node, scope, member)
        if isinstance(node, cst.IfExp):
            return self._expression(node.body, scope, member) | self._expression(node.orelse, scope, member)
        if isinstance(node, (cst.Await, cst.NamedExpr)):
            return self._expression(node.expression if isinstance(node, cst.Await) else node.value, scope, member)
        return frozenset({UNKNOWN})

    def _name(self, name: str, scope: Scope, member: str) -> frozenset[str]:
        found = scope.lookup(name)
        if found is None:
            return frozenset({UNKNOWN})
        owner, bindings = found
        if name in ("self", "cls") and any(isinstance(binding, Parameter) for binding in bindings):
            cls = owner.enclosing_class()
            return self.class_kind(self.names, cls, member) if cls is not None else frozenset({UNKNOWN})
        key = (id(owner), name, member)
        if key not in self._known:
            self._known[key] = frozenset()  # x = x.float() says nothing new about x
            self._known[key] = self._bound(bindings, owner, member)
        return self._known[key]

    def _bound(self, bindings: list[Binding], owner: Scope, member: str) -> frozenset[str]:
        kinds: set[str] = set()
        for binding in bindings:
            if isinstance(binding, Parameter):
                kinds |= self._annotated(binding.annotation, owner, member)
            elif isinstance(binding, Assigned):
                kinds |= self._assigned(binding, owner, member)
            elif isinstance(binding, Defined) and isinstance(binding.node, cst.ClassDef):
                kinds |= self.class_kind(self.names, binding.scope, member)
            else:
                kinds.add(UNKNOWN)
        return frozenset(kinds)

    def _assigned(self, binding: Assigned, scope: Scope, member: str) -> frozenset[str]:
        if binding.annotation is not None:
            return self._annotated(binding.annotation, scope, member)
        if binding.value is None:
            return frozenset({UNKNOWN})
        if isinstance(binding.value, cst.Name) and binding.value.value == "None":
            return frozenset()
        return self._expression(binding.value, scope, member)

    def _attribute(self, node: cst.Attribute, scope: Scope, member: str) -> frozenset[str]:
        cls = scope.enclosing_class()
        if cls is not None and isinstance(node.value, cst.Name) and node.value.value == "self":
            kinds: set[str] = set()
            for binding in cls.attributes.get(node.attr.value, ()):
                kinds |= self._assigned(binding, self._method_scope(binding, cls, scope), member)
            if kinds:
                return frozenset(kinds)
        return frozenset({UNKNOWN})

    def _method_scope(self, binding: Assigned, cls: Scope, scope: Scope) -> Scope:
        """The scope in which `self.x = value` was written: that method's parameters give the value its meaning."""
        if isinstance(binding.value, cst.Name):
            for defined in (b for bindings in cls.bindings.values() for b in bindings if isinstance(b, Defined)):
                if binding.value.value in defined.scope.bindings:
                    return defined.scope
        return cls if scope.kind == "class" else scope

    def _annotated(self, annotation: cst.CSTNode | None, scope: Scope, member: str) -> frozenset[str]:
        if annotation is None:
            return frozenset({UNKNOWN})
        text = string_value(annotation)
        if text is not None:
            try:
                annotation = cst.parse_expression(text)
            except cst.ParserSyntaxError:
                return frozenset({UNKNOWN})
        if isinstance(annotation, cst.BinaryOperation):  # Kit | None
            sides = (self._annotated(side, scope, member) for side in (annotation.left, annotation.right))
            return frozenset().union(*sides)
        if isinstance(annotation, cst.Name) and annotation.value == "None":
            return frozenset()
        if isinstance(annotation, cst.Subscript):
            if last_name(annotation.value) not in ("Optional", "Union"):
                return frozenset({UNKNOWN})
            choices = (part.slice.value for part in annotation.slice if isinstance(part.slice, cst.Index))
            return frozenset().union(*(self._annotated(choice, scope, member) for choice in choices))
        alias = self.names.binding(annotation, scope)
        if alias is not None and isinstance(alias[1], Assigned):  # Adj = Union[Tensor, Kit]
            names, value = alias[0], alias[1].value
            inner = Receivers(names, _depth=self._depth + 1)
            question = ("alias", id(value), member)
            ask = partial(inner._annotated, value, names.scopes.module, member)
            return names.context.once(question, ask) or frozenset({UNKNOWN})
        return self._instance(annotation, scope, member)

    def _called(self, node: cst.Call, scope: Scope, member: str) -> frozenset[str]:
        function = node.func
        if isinstance(function, cst.Name) and function.value == "super":
            cls = scope.enclosing_class()
            kinds = self.class_kind(self.names, cls, member) if cls is not None else frozenset({UNKNOWN})
            # The override itself is the user's; what super() reaches is the base's.
            return kinds if MODULE in kinds else frozenset({UNKNOWN})
        if isinstance(function, cst.Attribute) and function.attr.value in _FLUENT:
            return self._expression(function.value, scope, member)
        return self._instance(function, scope, member)

    def _instance(self, function: cst.CSTNode, scope: Scope, member: str) -> frozenset[str]:
        """The kind of what calling `function` (or being annotated by it) gives."""
        if not isinstance(function, (cst.Name, cst.Attribute)):
            return frozenset({UNKNOWN})
        definition = self.names.definition(function, scope)
        if definition is not None:
            names, defined = definition
            if isinstance(defined.node, cst.ClassDef):
                return self.class_kind(names, defined.scope, member)
            inner = Receivers(names, _depth=self._depth + 1)
            question = ("returned", id(defined.node), member)
            return names.context.once(question, lambda: inner._returned(defined, member)) or frozenset()
        qualified = self.names.qualified(function, scope) or ""
        if qualified in _TENSOR_BASES:
            return frozenset({TENSOR})
        if qualified.startswith("torch.nn.") and qualified.rpartition(".")[2][:1].isupper():
            return frozenset({MODULE})
        head, _, leaf = qualified.rpartition(".")
        if head == "torch" and leaf not in _NOT_TENSORS:
            return frozenset({TENSOR})
        return frozenset({UNKNOWN})

    def _returned(self, function: Defined, member: str) -> frozenset[str]:
        node = function.node
        assert isinstance(node, cst.FunctionDef)
        if node.returns is not None:
            outer = function.scope.parent or function.scope
            return self._annotated(node.returns.annotation, outer, member)
        kinds: set[str] = set()
        for value in _return_values(node.body):
            kinds |= self._expression(value, function.scope, member)
        return frozenset(kinds) or frozenset({UNKNOWN})

    def own_classes(self, member: str, read: bool) -> bool:
        """Whether some class of this file that is no Module or Tensor defines the member: as a method, or, with `read`,
        as an attribute or property."""
        for cls in self.names.scopes.by_node.values():
            if cls.kind != "class":
                continue
            called = any(
                isinstance(binding, Defined) and not is_property(binding) for binding in cls.bindings.get(member, ())
            )
            if (holds_data(cls, member) if read else called) and self.class_kind(self.names, cls, member) == {OWN}:
                return True
        return False

    def class_kind(self, names: Names, cls: Scope, member: str, depth: int = 10) -> frozenset[str]:
        """Module, tensor, own (the class or a base in the project defines the member), or unknown."""
        node = cls.node
        assert isinstance(node, cst.ClassDef)
        if holds_data(cls, member):
            return frozenset({OWN})
        kinds: set[str] = set()
        for base in node.bases:
            qualified = names.qualified(base.value, cls.parent or cls) or ""
            if qualified in _TENSOR_BASES:
                kinds.add(TENSOR)
            elif qualified in _MODULE_BASES or (
                qualified.startswith("torch.nn.") and qualified.rpartition(".")[2][:1].isupper()
            ):
                kinds.add(MODULE)
            else:
                parent = names.definition(base.value, cls.parent or cls) if depth else None
                if parent is not None and isinstance(parent[1].node, cst.ClassDef) and parent[1].scope is not cls:
                    kinds |= self.class_kind(parent[0], parent[1].scope, member, depth - 1)
        kinds.discard(UNKNOWN)
        if kinds & {MODULE, TENSOR}:
            return frozenset(kinds & {MODULE, TENSOR})
        if OWN in kinds or member in cls.bindings or member in cls.attributes:
            return frozenset({OWN})
        return frozenset({UNKNOWN})


def holds_data(cls: Scope, member: str) -> bool:
    """Whether a class has a property or an attribute of that name: the user's, even where the class is a Module."""
    return member in cls.attributes or any(
        isinstance(binding, Assigned) or (isinstance(binding, Defined) and is_property(binding))
        for binding in cls.bindings.get(member, ())
    )


def is_property(binding: Defined) -> bool:
    """Whether a function is decorated to be read like an attribute."""
    names = (last_name(decorator.decorator) or "" for decorator in binding.node.decorators)
    return any(name.endswith("property") for name in names)


def _return_values(body: cst.CSTNode) -> list[cst.BaseExpression]:
    """The values of a function's own return statements."""
    found: list[cst.BaseExpression] = []
    pending = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Return) and node.value is not None:
            found.append(node.value)
        elif not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            pending.extend(children(node))
    return found
