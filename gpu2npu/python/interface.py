"""What a file offers to the files that import from it: small, so that a whole project's fit into memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpu2npu.python.file import PythonFile
from gpu2npu.python.scopes import Assigned, Binding, Defined, Imported, Scope
from gpu2npu.python.source import SourceFile
from gpu2npu.python.syntax import Import, dotted_name, import_module, imported_names, last_name, string_value
from gpu2npu.python.text import Lines
from gpu2npu.python.tree import parse
from gpu2npu.python.walk import Walk

# Calls that import the module their string names.
IMPORTERS = frozenset({"importorskip", "import_module", "__import__"})


class OriginKind(Enum):
    """The way in which a module binds one of its names."""

    IMPORT = "import"  # `name` is the qualified name, with dots in front where it is relative
    ALIAS = "alias"  # of the dotted name `name` of the same module
    LOADED = "loaded"  # the module `name`, by import_module("...")
    DEFINITION = "definition"
    VALUE = "value"


class Origin(NamedTuple):
    """One binding of a name of a module."""

    kind: OriginKind
    name: str = ""


@dataclass(frozen=True)
class Interface:
    """`names` has the bindings of each name of the module, `stars` the modules whose stars add to them; `imports` are
    the modules, and the names in them, that import statements anywhere in the file name, as they are written. `public`
    are the names in `__all__`, None where it is not one list of strings."""

    path: str
    names: Mapping[str, tuple[Origin, ...]]
    stars: tuple[str, ...]
    imports: frozenset[str]
    public: frozenset[str] | None = None

    def may_star(self, name: str) -> bool:
        """Whether a star import of this module may bring in `name`."""
        return self.may_have(name) and (self.public is None or name in self.public)

    def may_have(self, name: str) -> bool:
        """Whether another module may get `name` from this one."""
        return bool(self.stars) or name in self.names


def interface_of(file: PythonFile) -> Interface:
    """The interface of a parsed file."""
    return _interface(file.path, file.text, file)


def read_interface(source: SourceFile) -> Interface:
    """The interface of a file of which nothing else is asked, found in a fraction of the time.

    Raises:
        TreeError: It is not Python of this interpreter's version, or is nested too deeply.
    """
    walk = Walk(parse(source.text), Lines.of(source.text), is_outline="global" not in source.text)
    return _interface(source.path, source.text, walk)


def _interface(path: str, text: str, found: PythonFile | Walk) -> Interface:
    names = {name: tuple(map(_origin, bindings)) for name, bindings in found.module.bindings.items()}
    public = _public(found.module.bindings.get("__all__", ()))
    if "__all__." in text:  # a method may add to it
        public = None
    return Interface(path, names, tuple(found.stars), frozenset(_imports(found.imports)), public)


def _public(bindings: Sequence[Binding]) -> frozenset[str] | None:
    """The names in the only list of strings that is assigned to `__all__`."""
    if len(bindings) != 1 or not isinstance(bindings[0], Assigned):
        return None
    listed = bindings[0].whole
    if not isinstance(listed, (ast.List, ast.Tuple)):
        return None
    names = [string_value(element) for element in listed.elts]
    return frozenset(name for name in names if name is not None) if None not in names else None


def _origin(binding: Binding) -> Origin:
    if isinstance(binding, Imported):
        return Origin(OriginKind.IMPORT, binding.qualified)
    if isinstance(binding, Defined):
        return Origin(OriginKind.DEFINITION)
    value = binding.whole if isinstance(binding, Assigned) else None
    dotted = dotted_name(value) if value is not None else None
    if dotted is not None:
        return Origin(OriginKind.ALIAS, dotted)
    loaded = loaded_module(value)
    return Origin(OriginKind.VALUE) if loaded is None else Origin(OriginKind.LOADED, loaded)


def loaded_module(node: ast.AST | None) -> str | None:
    """The module that a call such as `import_module("x")` imports; None for anything else."""
    if isinstance(node, ast.Call) and node.args and last_name(node.func) in IMPORTERS:
        return string_value(node.args[0])
    return None


def _imports(statements: Iterable[tuple[Import, Scope]]) -> Iterator[str]:
    for statement, _ in statements:
        if isinstance(statement, ast.ImportFrom):
            yield import_module(statement)
        for _, qualified in imported_names(statement):
            yield qualified
