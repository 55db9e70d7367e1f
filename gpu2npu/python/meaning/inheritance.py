"""Inheritance of classes of a project: whether one derives from another, whose member its objects have, and which
`__init__` is called."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.scopes import Assigned, Defined, Scope
from gpu2npu.python.tree.syntax import is_property, is_super

_MAX_BASES = 10  # of classes that derive from each other


class Wanted(NamedTuple):
    """The class that an object may be of, by its qualified name, and the member that is taken from the object. With
    `with_overrides`, what subclasses define under the member's name counts as the member, and so does that of the class
    itself."""

    cls: str
    member: str = ""
    with_overrides: bool = False


def gives(names: Names, cls: Scope, wanted: Wanted, inherited: bool = False, depth: int = _MAX_BASES) -> bool | None:
    """Return whether the member of an object of a class of a file, or with `inherited` of its bases, is that of the
    wanted class. None where a base that does not derive from it comes first and defines the member too."""
    if not derives(names, cls, wanted.cls) or not depth:
        return False
    if not wanted.member or _is_named(names, cls, wanted.cls):
        return True
    if not inherited and wanted.member in cls.bindings | cls.attributes:
        return wanted.with_overrides or not holds_data(cls, wanted.member)
    outer = cls.parent or cls
    for base in cls.bases:
        found = names.definition(base, outer)
        if names.qualified(base, outer) == wanted.cls:
            return True
        if found is None or found.bound.scope is cls:
            continue
        if derives(found.names, found.bound.scope, wanted.cls):
            return gives(found.names, found.bound.scope, wanted, depth=depth - 1)
        if has_member(found.names, found.bound.scope, wanted.member):
            return None
    return True


def holds_data(cls: Scope, member: str) -> bool:
    """Return whether a class, even a Module, has a property or an attribute of that name: the project's own."""
    return member in cls.attributes or any(
        isinstance(binding, Assigned) or (isinstance(binding, Defined) and is_property(binding.node))
        for binding in cls.bindings.get(member, ())
    )


def has_member(names: Names, cls: Scope, member: str, depth: int = _MAX_BASES) -> bool:
    """Return whether a class of a file, or one of the project among its bases, defines a member."""
    if member in cls.bindings or member in cls.attributes:
        return True
    found = [names.definition(base, cls.parent or cls) for base in cls.bases] if depth else []
    return any(has_member(each.names, each.bound.scope, member, depth - 1) for each in found if each is not None)


def derives(names: Names, cls: Scope, wanted: str, depth: int = _MAX_BASES) -> bool:
    """Return whether a class of a file is the class of a qualified name, or has it among its bases, or theirs."""
    if not isinstance(cls.node, ast.ClassDef) or not depth:
        return False
    if _is_named(names, cls, wanted):
        return True
    outer = cls.parent or cls
    for base in cls.bases:
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


def _is_named(names: Names, cls: Scope, wanted: str) -> bool:
    """Return whether a class at the top level of a file is the one of a qualified name: of a library whose files are in
    the project, also by the name that its package gives it."""
    module, _, name = wanted.rpartition(".")
    if cls.parent is not names.file.module or getattr(cls.node, "name", None) != name:
        return False
    if names.project.module_path(module, names.path) == names.path:
        return True
    found = names.exported(wanted)
    return found is not None and found.names.path == names.path


# Bases whose `__init__` takes nothing and hands everything on.
_PLAIN = frozenset({"object", "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"})


class Constructed(NamedTuple):
    """Qualified names: the class whose `__init__` is called, and those to which its arguments may be handed on."""

    first: str | None = None
    further: tuple[str, ...] = ()

    @property
    def leaves(self) -> list[str]:
        return [name.rpartition(".")[2] for name in (self.first, *self.further) if name is not None]


def constructed(names: Names, call: ast.Call, scope: Scope) -> Constructed:
    """Return the classes that the arguments of `super().__init__(...)`, of `Base.__init__(self, ...)` or of a call of a
    class of the project are for."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "__init__":
        if is_super(func.value):
            cls = scope.enclosing_class()
            return _ordered(_inherited(names, cls)) if cls is not None else Constructed()
        return Constructed(names.qualified(func.value, scope))
    found = names.definition(func, scope)
    if found is None or not isinstance(found.bound.node, ast.ClassDef):
        return Constructed()
    cls = found.bound.scope
    own = [each for each in cls.bindings.get("__init__", ()) if isinstance(each, Defined)]
    if not own and {"__init__", "__new__"}.isdisjoint(cls.bindings):
        return _ordered(_inherited(found.names, cls))
    if len(own) == 1 and _forwards(own[0].node):
        return Constructed(None, tuple(_inherited(found.names, cls)))
    return Constructed()


def _ordered(classes: list[str]) -> Constructed:
    return Constructed(classes[0], tuple(classes[1:])) if classes else Constructed()


def _inherited(names: Names, cls: Scope, depth: int = _MAX_BASES) -> list[str]:
    """The classes outside the project that a class inherits `__init__` from, in their order: up to one of the project
    that defines it."""
    reached: list[str] = []
    outer = cls.parent or cls
    for base in cls.bases if depth else ():
        found = names.definition(base, outer)
        if found is None:
            qualified = names.qualified(base, outer)
            reached += [qualified] if qualified is not None and qualified not in _PLAIN else []
        elif "__init__" in found.bound.scope.bindings or found.bound.scope is cls:
            break
        else:
            reached += _inherited(found.names, found.bound.scope, depth - 1)
    return reached


def _forwards(function: ast.AST) -> bool:
    """Return whether an `__init__` gives any other keyword to the one it overrides."""
    rest = function.args.kwarg if isinstance(function, ast.FunctionDef) else None
    return rest is not None and any(
        keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == rest.arg
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        for keyword in call.keywords
    )
