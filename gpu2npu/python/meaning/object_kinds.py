"""The kind of an object that a member is looked up on: a tensor, a layer, an object of a class of the project.

A view of `types`: the same knowledge, as far as rules about methods and attributes need it, and last of the values.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpu2npu.python.meaning.inheritance import holds_data
from gpu2npu.python.meaning.instances import guarded_classes
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import TENSOR as TENSOR
from gpu2npu.python.meaning.types import TENSORS, Own, Types, ValueTypes
from gpu2npu.python.meaning.types import UNKNOWN as UNKNOWN
from gpu2npu.python.tree.scopes import Defined, Scope
from gpu2npu.python.tree.syntax import is_property, is_super

if TYPE_CHECKING:
    from gpu2npu.python.flow.value_calls import ValueOrigin
    from gpu2npu.python.flow.values import Values

MODULE = "module"
OWN = "own"  # an object whose class, the project's and not a Module, defines the member itself
ANY_KIND = frozenset({TENSOR, MODULE, UNKNOWN})

Kinds = frozenset[str]
_UNKNOWN: Kinds = frozenset({UNKNOWN})
_OWN: Kinds = frozenset({OWN})
_TENSOR: Kinds = frozenset({TENSOR})
_MAX_BASES = 10


class ObjectKinds:
    """Gives the kinds of the expressions of one file that a member is looked up on."""

    def __init__(self, names: Names, types: ValueTypes | None = None) -> None:
        self.names = names
        self.library = names.project.library
        self.types = types or ValueTypes(names)

    def of(self, node: ast.AST, scope: Scope, member: str) -> Kinds:
        """Every kind the expression may be; {"unknown"} when nothing is known."""
        guarded = frozenset(map(self.of_library, guarded_classes(node, self.names)))
        if guarded and UNKNOWN not in guarded:
            return guarded
        types = self.types.of(node, scope)
        if is_super(node):
            # The override itself is the project's; what super() reaches is the base's.
            return self._of_types(types, member) & {MODULE} or _UNKNOWN
        return self._of_types(types, member)

    def _of_types(self, types: Types, member: str) -> Kinds:
        kinds: set[str] = set()
        for each in types:
            if isinstance(each, Own):
                kinds |= ObjectKinds(each.names).of_class(each.cls, member)
            elif each != TENSORS:  # what gives one or several tensors gave one where a tensor's member is used
                kinds.add(self.of_library(each))
        return frozenset(kinds) or _UNKNOWN

    def of_library(self, name: str) -> str:
        if name == TENSOR or name in self.library.tensors:
            return TENSOR
        return MODULE if name in self.library.modules or self.library.is_module_class(name) else UNKNOWN

    def has_own_class(self, member: str, read: bool) -> bool:
        """Return whether some class of this file that is not a Module or Tensor defines the member.

        The member is a method, or, with `read`, an attribute or property.
        """
        for cls in self.names.file.scopes.values():
            if cls.kind != "class":
                continue
            called = any(
                isinstance(binding, Defined) and not is_property(binding.node)
                for binding in cls.bindings.get(member, ())
            )
            if (holds_data(cls, member) if read else called) and self.of_class(cls, member) == _OWN:
                return True
        return False

    def of_class(self, cls: Scope, member: str, depth: int = _MAX_BASES) -> Kinds:
        """The kind of the objects of a class of this file: module, tensor, own (the class or a base in the project
        defines the member), or unknown."""
        if holds_data(cls, member):
            return _OWN
        kinds: set[str] = set()
        for base in self.types.bases(cls) if depth else ():
            if isinstance(base, Own):
                kinds |= ObjectKinds(base.names).of_class(base.cls, member, depth - 1)
            else:
                kinds.add(self.of_library(base))
        if kinds & {MODULE, TENSOR}:
            return frozenset(kinds & {MODULE, TENSOR})
        return _OWN if OWN in kinds or member in cls.bindings or member in cls.attributes else _UNKNOWN


def kinds_by_values(values: Values, names: Names, node: ast.expr, member: str) -> Kinds:
    """The kinds of an object that `member` is looked up on, as `ObjectKinds` gives them, by where its value comes from;
    of one that is not called, by all of its line whose member this is."""
    file, above = values.file_of(names), names.file.parents[node]
    call = names.file.parents.get(above)
    if file is None:
        return _UNKNOWN
    if isinstance(call, ast.Call) and call.func is above:
        called = file.calls.get(values.call_at(names, call))
        receivers = [file.first + called.receiver] if called is not None and called.receiver else []
    else:
        on_line = ((base, target) for base, loads in file.loads.items() for target in loads.get(f".{member}", ()))
        receivers = [base for base, target in on_line if values.line(target) == above.lineno]  # type: ignore[attr-defined]
    kinds: set[str] = set()
    with values.near(names.path):
        for origin in (each for receiver in receivers for each in values.sources(receiver, names.path)):
            kinds |= _of_origin(values, names, origin, member)
    return frozenset(kinds) or _UNKNOWN


def _of_origin(values: Values, names: Names, origin: ValueOrigin, member: str) -> Kinds:
    if origin.kind == "outside":
        name, *parts = origin.text.split("()")
        library = names.project.library
        is_same = all(part.removeprefix(".") in (*library.fluent, member, "") for part in parts)
        if not parts or not is_same or not library.has(name):
            return _UNKNOWN
        return _TENSOR if TENSOR in library.result(name) else frozenset({ObjectKinds(names).of_library(name)})
    home = names.project.names(values.at(origin.place).path)
    if home is None or origin.kind not in ("instance", "class", "module"):
        return _UNKNOWN
    if origin.kind == "module":
        return _OWN if member in home.file.module.bindings else _UNKNOWN
    line = values.line(values.at(origin.place).first + values.kind(origin.place)[1].node)
    made = (
        each for each in home.file.scopes.values() if isinstance(each.node, ast.ClassDef) and each.node.lineno == line
    )
    return frozenset().union(*(ObjectKinds(home).of_class(each, member) for each in made)) or _UNKNOWN
