"""Reads the names a Python package offers from its sources, without importing it.

A wheel of torch_npu cannot be imported where there is no Ascend driver, so its surface is read from its text. A name
counts when the module defines it, imports it from the same package, or exports it through `__all__`; what a module
imports from elsewhere (`os`, `Optional`) is not its own. Names with one leading underscore count only as functions,
classes and modules: programs do call `torch.cuda._sleep` and `torch.cuda.memory._record_memory_history`. A class of
nothing but static methods, such as `torch_npu.npu.mstx`, is read as a module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import absolute_name, offered_names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Parameter
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, is_static, statements

_FOR_CHECKERS = "typing.TYPE_CHECKING"


@dataclass(frozen=True)
class Surface:
    """Qualified names: `modules` are the package and its submodules, `names` everything else they offer.

    `inert` are those of the public names that are functions which do nothing but warn and return a constant.
    `parameters` are those that the public functions and classes of the package itself can be given by keyword, with
    "**" for any others.
    """

    modules: frozenset[str]
    names: frozenset[str]
    inert: frozenset[str] = frozenset()
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_surface(sources: Mapping[str, str], package: str) -> Surface:
    """The names of `package` ("torch_npu.npu") and its submodules, found in `sources` (path in the wheel -> text).

    Raises:
        TreeError: a source does not parse.
        KeyError: `package` has no `__init__.py` in `sources`.
    """
    reader = _Reader(sources, package)
    names: set[str] = set()
    inert: set[str] = set()
    namespaces: set[str] = set()
    parameters: dict[str, tuple[str, ...]] = {}
    for module in reader.visible():
        for name in reader.offered(module):
            qualified = f"{module}.{name}"
            names.add(qualified)
            found = reader.definition(module, name)
            if found is None:
                continue
            given = _parameters(found[1])
            if given is not None and module == package and not name.startswith("_"):
                parameters[qualified] = given
            if "._" not in qualified and _does_nothing(*found):
                inert.add(qualified)
            if members := _namespace(*found):
                namespaces.add(qualified)
                names.update(f"{qualified}.{member}" for member in members)
    modules = reader.visible() | namespaces
    return Surface(frozenset(modules), frozenset(names - modules), frozenset(inert), parameters)


class _Reader:
    """The files of one package, each by the dotted name of its module."""

    def __init__(self, sources: Mapping[str, str], package: str) -> None:
        self.package = package
        self.paths = {
            name: path for path in sources if (name := _module(path)) == package or name.startswith(f"{package}.")
        }
        project = Project(frozenset(self.paths.values()), lambda path: sources[path].encode(), retained=len(self.paths))
        self.names = {
            name: Names.of(SourceFile(path, sources[path], "utf-8", b""), project) for name, path in self.paths.items()
        }
        self.names[package]  # a KeyError, where the package is missing
        self.project = project

    def visible(self) -> set[str]:
        """The modules, without those that an object hides: `from .mstx import mstx`."""
        return {name for name in self.paths if not self._is_hidden(name)}

    def _is_hidden(self, module: str) -> bool:
        parent, _, last = module.rpartition(".")
        bindings = self._bindings(parent, last) if parent in self.paths else []
        return any(
            isinstance(each, Imported) and self._absolute(each, parent) == f"{module}.{last}" for each in bindings
        )

    def offered(self, module: str) -> set[str]:
        """The names that a module offers, its own and those that it lists in `__all__`."""
        exports = self.names[module].facts.exports
        listed = exports.names if exports is not None else frozenset()
        homes = offered_names(self.project, self.paths[module])
        return {name for name, path in homes.items() if self._is_offered(name, _module(path), name in listed)}

    def _is_offered(self, name: str, home: str, is_listed: bool) -> bool:
        bindings = self._bindings(home, name)
        if any(isinstance(each, Defined) or self._is_own(each, home) for each in bindings):
            return is_listed or not name.startswith("__")
        if any(isinstance(each, Assigned) for each in bindings):
            return is_listed or not name.startswith("_")
        # An `__all__` may name what is not there (a missing comma makes one name of two). Only the tensor types, which
        # C++ adds to the module, are believed without a binding.
        exports = self.names[home].facts.exports
        is_listed = is_listed or (exports is not None and name in exports.names)
        return is_listed and (bool(bindings) or name.endswith("Tensor"))

    def _is_own(self, binding: Binding, module: str) -> bool:
        """Return whether a name is imported from the package."""
        return isinstance(binding, Imported) and self._absolute(binding, module).startswith(f"{self.package}.")

    def _absolute(self, binding: Imported, module: str) -> str:
        return absolute_name(binding.qualified, module, self.paths[module])

    def _bindings(self, module: str, name: str) -> list[Binding]:
        """The meanings that a name of a module may have once it is imported."""
        names = self.names[module]
        bindings = [each for each in names.file.module.bindings.get(name, ()) if _happens(each, names)]
        return bindings if not bindings or not _is_deleted(bindings[-1]) else []

    def definition(self, module: str, name: str) -> tuple[Names, Defined] | None:
        """The function or class of the package that a module offers under a name, and the names of its file."""
        found = self.names[module].own_or_starred(name)
        return (found.names, found.bound) if found is not None and isinstance(found.bound, Defined) else None


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _happens(binding: Binding, names: Names) -> bool:
    """Return whether importing a module binds a name so, for good: not in a function, nor for type checkers."""
    scope = names.file.module
    statement = binding.node if isinstance(binding, (Defined, Parameter)) else binding.statement
    if names.file.scope_of(statement) is not scope:
        return False
    if isinstance(statement, ast.ExceptHandler) or (isinstance(statement, ast.AnnAssign) and statement.value is None):
        return False
    inner = statement
    for above in names.file.above(statement):
        if isinstance(above, ast.If) and inner in above.body and names.qualified(above.test, scope) == _FOR_CHECKERS:
            return False
        inner = above
    return True


def _is_deleted(binding: Binding) -> bool:
    """Return whether a name is unbound: by `del x`."""
    return isinstance(binding, Assigned) and isinstance(binding.statement, ast.Name)


def _namespace(names: Names, found: Defined) -> set[str]:
    """The names that a class without bases offers if its methods are all static; none of any other class."""
    node = found.node
    if not isinstance(node, ast.ClassDef) or node.bases:
        return set()
    methods = [each for each in node.body if isinstance(each, FUNCTIONS)]
    if not methods or not all(map(is_static, methods)):
        return set()
    added = {name for owner, name in _attributes(names) if owner == node.name}
    return {method.name for method in methods} | added


def _attributes(names: Names) -> Iterator[tuple[str, str]]:
    """Owner and name of each attribute that a module sets: `mstx.annotate = annotate`."""
    for statement in statements(names.file.tree.body):
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                yield target.value.id, target.attr


def _parameters(found: Defined) -> tuple[str, ...] | None:
    """The keywords that a function takes, or a class that says how its objects are made."""
    if isinstance(found.node, FUNCTIONS):
        return _keyword_parameters(found.node)
    given = [each for name in ("__new__", "__init__") for each in found.scope.bindings.get(name, ())]
    makers = [each.node for each in given if isinstance(each, Defined) and isinstance(each.node, FUNCTIONS)]
    return _keyword_parameters(makers[-1])[1:] if makers else None


def _does_nothing(names: Names, found: Defined) -> bool:
    """Return whether a function is nothing but a docstring, warnings, `pass` and the return of a constant."""

    def is_idle(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Return):
            return statement.value is None or isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return names.qualified(statement.value.func, found.scope) == "warnings.warn"
        return isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )

    return isinstance(found.node, FUNCTIONS) and all(map(is_idle, found.node.body))


def _keyword_parameters(function: Function) -> tuple[str, ...]:
    """The parameters that a call can give by keyword, and "**" where it can give any others."""
    given = function.args
    named = [each.arg for each in (*given.args, *given.kwonlyargs)]
    return (*named, "**") if given.kwarg is not None else tuple(named)
