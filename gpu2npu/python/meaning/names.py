"""The qualified names that names and dotted expressions refer to, across the files of a project."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpu2npu.python.facts.reading import facts_of, loaded_module
from gpu2npu.python.meaning.library import Library
from gpu2npu.python.meaning.mocks import replaced_by_mock
from gpu2npu.python.meaning.module_names import Bound, Definition, ModuleNames
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import PythonFile, parsed_file
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Parameter, Scope, value_of
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    Function,
    defaults,
    dotted_name,
    is_classmethod,
    is_none,
    is_property,
    is_static,
    member_of,
    string_value,
)

_MAX_BASES = 10  # of classes that derive from each other


class Method(NamedTuple):
    """A method of a class of the project, and the names of its file. `is_bound` means that its first parameter is given
    without being written."""

    function: Function
    is_bound: bool
    names: Names


class Names(ModuleNames):
    """Resolves the names of one file, in any scope.

    `wanted` are qualified names that stars of modules outside the project are taken to bring in.
    `leading` are the names that mean more than this file says: no other leads to a qualified name, unless a star may
    bring it in.
    """

    def __init__(self, file: PythonFile, project: Project, wanted: frozenset[str] = frozenset()) -> None:
        super().__init__(file.path, facts_of(file), project)
        self.file = file
        self.wanted = wanted
        self.leading = frozenset(_leading(file)) | project.library.packages
        self._attributes = frozenset(_attributes(file, self.leading)) | project.library.packages
        self._carried = _carried(file, project.library)
        self._meanings: dict[tuple[Scope, str], str | None] = {}
        self._qualified: dict[tuple[ast.AST, Scope], str | None] = {}

    @classmethod
    def of(cls, source: SourceFile, project: Project) -> Names:
        """The names of a decoded file, parsed once if it is the project's own.

        Raises:
            TreeError: It is not Python of this interpreter's version, or is nested too deeply.
        """
        known = project.parsed(source.path)
        if known is not None and known.file.source == source:
            return known
        names = cls(parsed_file(source), project)
        project.keep(names)
        return names

    # Qualified names

    def qualified(self, node: ast.AST, scope: Scope) -> str | None:
        """`torch.cuda.amp.autocast` for an expression that means it, whatever it is spelled; else None."""
        if not self.may_lead_on(node):  # as most expressions
            return None
        if isinstance(node, ast.Name) and node not in self._carried:
            return self.name(node.id, scope)
        key = (node, scope)
        if key in self._qualified:
            return self._qualified[key]
        found = self._dotted(node, scope)
        if not self.project.is_answering:
            self._qualified[key] = found
        return found

    def may_lead_on(self, node: ast.AST) -> bool:
        """Return whether an expression has the form of one that has a qualified name, and begins with a name that may
        lead to one."""
        first, whole = "", node
        while node.__class__ is ast.Attribute:
            first, node = node.attr, node.value
        if isinstance(node, ast.Name) and (node.id in self.leading or self.facts.stars or first in self._attributes):
            return True
        return isinstance(node, ast.Call) or whole in self._carried

    def _dotted(self, node: ast.AST, scope: Scope) -> str | None:
        whole, owner, members = node, None, list[str]()
        while isinstance(node, ast.Attribute):
            members.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            owner = self.name(node.id, scope)
            if owner is None and node.id == "self" and members[-1:] and members[-1] in self._attributes:
                owner = self._attribute(members.pop(), scope.enclosing_class())
        elif isinstance(node, ast.Call):
            owner = self._gotten(node, scope)
        found = self.members(owner, reversed(members)) if members else owner
        is_known = whole not in self._carried or (found or "").partition(".")[0] in self.project.library.packages
        return found if is_known else self._by_value(whole) or found

    def _by_value(self, part: ast.AST) -> str | None:
        """The library's name of what is called, without what is taken of a part of it."""
        call, above = self._carried[part]
        called = (self.project.library.called(self, call) or "").split(".")
        return self.follow(".".join(called[: len(called) - above])) if above < len(called) and called[0] else None

    def _attribute(self, name: str, cls: Scope | None, depth: int = _MAX_BASES) -> str | None:
        """The library's package that a class keeps as an attribute, `self.torch = torch`, or inherits, whatever
        else the attribute is given."""
        if cls is None or not depth:
            return None
        bound = [*((each, cls) for each in cls.bindings.get(name, ())), *cls.attributes.get(name, ())]
        found = next(filter(None, (self._package_in(each, where) for each, where in bound)), None)
        if found is not None or any(isinstance(each, Defined) for each, _ in bound):
            return found
        above = (self.definition(base, cls.parent or cls) for base in cls.bases)
        inherited = (each.names._attribute(name, each.bound.scope, depth - 1) for each in above if each is not None)
        return next(filter(None, inherited), None)

    def _package_in(self, binding: Binding, scope: Scope) -> str | None:
        """The library's package that a binding of an attribute gives it; of a property, what it returns."""
        if isinstance(binding, Imported):
            return self._package(binding.qualified)
        name = _name_given(binding)
        found = self.name(name, binding.scope if isinstance(binding, Defined) else scope) if name is not None else None
        return found if found in self.project.library.packages else None

    def _gotten(self, node: ast.Call, scope: Scope) -> str | None:
        """Return the qualified name of what `getattr(torch, "x")` gives."""
        if not (isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1):
            return None
        attribute = string_value(node.args[1])
        owner = self.qualified(node.args[0], scope) if attribute is not None else None
        return self.follow(f"{owner}.{attribute}") if owner is not None else None

    def name(self, name: str, scope: Scope) -> str | None:
        """The qualified name that `name` is bound to where it is used in `scope`."""
        found = scope.lookup(name)
        if found is None:
            # A free name can only come from a star import, or from a cell or module this file is run in.
            return self.through_stars(name) or (name if name in self.project.library.packages else None)
        key = (found[0], name)
        if key not in self._meanings:
            self._meanings[key] = None  # x = x
            self._meanings[key] = self._meaning(*found) or self._package_called(name, *found)
        return self._meanings[key]

    def _package_called(self, name: str, scope: Scope, bindings: list[Binding]) -> str | None:
        """The library's package that has a name, which calls give it: `torch, nn = try_import_torch()`, where the
        project's own code gives it nothing else."""
        values = [each.value for each in bindings if isinstance(each, Assigned)]
        calls = [each for each in values if isinstance(each, ast.Call)]
        others = [each for each in values if each not in calls and not is_none(each)]
        if name not in self.project.library.packages or not calls or others or len(values) < len(bindings):
            return None
        return name if all(self._may_give(name, call.func, scope) for call in calls) else None

    def _may_give(self, package: str, callee: ast.expr, scope: Scope) -> bool:
        """Return whether a call of something may give a package: of a function of the project that imports it, or of
        what another package has."""
        made = self.definition(callee, scope)
        if made is None:
            return self.qualified(callee, scope) is not None
        return made.names._may_return(package, made)

    def _may_return(self, package: str, made: Definition) -> bool:
        """Return whether a function of this file imports a package, which it may return then."""
        node = made.bound.node
        inside = self.file.scopes.get(node) if isinstance(node, FUNCTIONS) else None
        return inside is not None and self.name(package, inside) == package

    def dotted(self, text: str, scope: Scope) -> str | None:
        """The qualified name of a dotted name in a text: `torch.cuda.Stream` in a quoted annotation."""
        root, *members = text.split(".")
        return self.members(self.name(root, scope), members)

    def binds(self, package: str, scope: Scope) -> bool:
        """Return whether code in `scope` reaches the package by its own name."""
        meaning = self.name(package, scope) if scope.lookup(package) is not None else self.through_stars(package)
        return meaning == package

    def _meaning(self, scope: Scope, bindings: list[Binding]) -> str | None:
        """Return the meaning of several bindings of one name; an import wins over a None that takes the place of it."""
        meanings: list[str | None] = []
        for binding in bindings:
            target = replaced_by_mock(binding, scope)
            if isinstance(binding, Imported):
                meanings.append(self.follow(binding.qualified))
            elif target is not None:
                meanings.append(self._package(target))
            elif isinstance(binding, Assigned):
                meanings.append(self._assigned(binding, scope))
            elif isinstance(binding, Parameter) and binding.position >= 0:
                meanings.append(self._default(binding, scope))
            else:
                return None
        return next((meaning for meaning in meanings if meaning is not None), None)

    def _default(self, parameter: Parameter, scope: Scope) -> str | None:
        """The library's package that a parameter has for a default."""
        given = dict(_named_defaults(scope)).get(parameter.node.arg)
        found = self.name(given, scope.parent) if given is not None and scope.parent is not None else None
        return found if found in self.project.library.packages else None

    def _package(self, dotted: str) -> str | None:
        """The library's package that a dotted name leads to; None for its members, which have no members themselves."""
        found = self.follow(dotted)
        return found if found in self.project.library.packages else None

    def _assigned(self, binding: Assigned, scope: Scope) -> str | None:
        value = value_of(binding)
        if isinstance(value, (ast.Name, ast.Attribute)):
            return self.qualified(value, scope)
        return loaded_module(value)

    def through_stars(self, name: str) -> str | None:
        """The same, and of what the stars of modules outside the project are taken to bring in."""
        for module in self.facts.stars if self.wanted else ():
            dotted = member_of(module, name)
            if dotted in self.wanted and self.project.module_path(module, self.path) is None:
                return dotted
        return super().through_stars(name)

    # What is defined in the project

    def definition(self, node: ast.AST, scope: Scope) -> Definition | None:
        """The class or function of the project that an expression names."""
        found = self.binding(node, scope)
        if found is None or not isinstance(found.bound, Defined):
            return None
        return Definition(found.names, found.bound)

    def binding(self, node: ast.AST, scope: Scope) -> Bound | None:
        """The definition, or the only assignment, that an expression names in the project."""
        if isinstance(node, ast.Name):
            found = scope.lookup(node.id)
            if found is not None and len(found[1]) == 1 and isinstance(found[1][0], (Defined, Assigned)):
                return Bound(self, found[1][0])
        qualified = self.import_path(node, scope) if dotted_name(node) else None
        return self.exported(qualified) if qualified else None

    def import_path(self, node: ast.AST, scope: Scope) -> str | None:
        """The dotted path an expression spells through an import, before any of it is followed."""
        members: list[str] = []
        while isinstance(node, ast.Attribute):
            members.append(node.attr)
            node = node.value
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        for binding in found[1] if found else ():
            if isinstance(binding, Imported):
                return ".".join((binding.qualified, *reversed(members)))
        return None

    def callees(self, node: ast.AST, scope: Scope) -> frozenset[str]:
        """The functions of which an expression is the result."""
        return frozenset(filter(None, (self.qualified(call.func, scope) for call in self.calls(node, scope))))

    def calls(self, node: ast.AST, scope: Scope) -> list[ast.Call]:
        """The calls of which an expression is the result: a call, those that a name or `self.x` is assigned to, and
        those whose result `with` gives a name."""
        assigned = (each for each in scope.bound(node) if isinstance(each, Assigned))
        values = (node, *(value_of(each) or each.entered for each in assigned))
        return [value for value in values if isinstance(value, ast.Call)]

    def method(self, node: ast.Attribute, scope: Scope) -> Method | None:
        """The method that `self.move`, `cls.move` or `Kit.move` names, where a class of the project defines it."""
        owner = node.value
        is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
        found = None if is_own else self.definition(owner, scope)
        cls = scope.enclosing_class() if is_own else found.bound.scope if found is not None else None
        bindings = cls.bindings.get(node.attr, ()) if cls is not None and cls.kind == "class" else ()
        if len(bindings) != 1 or not isinstance(bindings[0], Defined):
            return None
        function = bindings[0].node
        if not isinstance(function, FUNCTIONS):
            return None
        is_bound = not is_static(function) and (is_own or is_classmethod(function))
        return Method(function, is_bound, found.names if found is not None else self)


def _attributes(file: PythonFile, leading: frozenset[str]) -> Iterator[str]:
    """The attributes that a class or its methods set to what some names mean."""
    for scope in file.scopes.values():
        for name, bound in scope.bindings.items() if scope.kind == "class" else ():
            if any(isinstance(each, Imported) or _name_given(each) in leading for each in bound):
                yield name
        for name, assigned in scope.attributes.items():
            for one, _ in assigned:
                if one.value.__class__ is ast.Name and one.value.id in leading:
                    yield name


def _carried(file: PythonFile, library: Library) -> dict[ast.AST, tuple[ast.Call, int]]:
    """The parts of `kit.torch.cuda.synchronize` in a call of it, whatever `kit` is, each with the call and the number
    of attributes that are taken of it."""
    found: dict[ast.AST, tuple[ast.Call, int]] = {}
    for call, _ in file.uses:
        if not isinstance(call, ast.Call):
            continue
        node, parts, has_part = call.func, list[ast.expr](), False
        while isinstance(node, ast.Attribute):
            has_part = has_part or (bool(parts) and node.attr in library.parts)
            parts.append(node)
            node = node.value
        parts.append(node)
        if has_part and len(parts) > 2 and not (isinstance(node, ast.Name) and node.id in library.packages):
            found.update((each, (call, above)) for above, each in enumerate(parts))
    return found


def _name_given(binding: Binding) -> str | None:
    """The name whose value a class attribute is, or that a property returns in its last statement."""
    value = value_of(binding)
    if isinstance(binding, Defined) and is_property(binding.node):
        last = binding.node.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
    return value.id if isinstance(value, ast.Name) else None


def _leading(file: PythonFile) -> Iterator[str]:
    """The names that some scope of a file binds to what another name or module is."""
    for scope in file.scopes.values():
        for name, bindings in scope.bindings.items():
            if any(_leads_on(binding, scope) for binding in bindings):
                yield name
        yield from (name for name, _ in _named_defaults(scope))


def _named_defaults(scope: Scope) -> Iterator[tuple[str, str]]:
    """The parameters of a function that have a name for a default, each with it."""
    if isinstance(scope.node, (*FUNCTIONS, ast.Lambda)) and (scope.node.args.defaults or scope.node.args.kw_defaults):
        for parameter, default in defaults(scope.node):
            if isinstance(default, ast.Name):
                yield parameter.arg, default.id


def _leads_on(binding: Binding, scope: Scope) -> bool:
    if binding.__class__ is Parameter and not getattr(scope.node, "decorator_list", ()):  # as most are
        return False
    if isinstance(binding, Imported) or replaced_by_mock(binding, scope) is not None:
        return True
    value = value_of(binding)
    return isinstance(value, (ast.Name, ast.Attribute)) or loaded_module(value) is not None
