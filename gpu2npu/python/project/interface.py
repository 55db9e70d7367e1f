"""The interface of a file for those that import from it: small, so that a whole project's fit into memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from unicodedata import normalize

from gpu2npu.python.text.offsets import line_before
from gpu2npu.python.text.source import SourceFile, SourceReadError, read_source
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Scope
from gpu2npu.python.tree.syntax import Import, dotted_name, import_module, imported_names, last_name, string_value
from gpu2npu.python.tree.syntax_tree import TreeError, parse, parse_statements
from gpu2npu.python.tree.walk import Use, Walk

# Calls that import the module their string names.
IMPORTERS = frozenset({"importorskip", "import_module", "__import__"})
_LONGEST_END = 20_000  # characters; to parse more may take as long as to parse the whole text


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


class Exports(NamedTuple):
    """The names that `__all__` lists; `is_whole` says that it has no others than those written out."""

    names: frozenset[str]
    is_whole: bool


@dataclass(frozen=True)
class Interface:
    """`names` has the bindings of each name of the module, `stars` the modules whose stars add to them; `imports` are
    the modules, and the names in them, that import statements anywhere in the file name, as they are written. `exports`
    is what `__all__` says, None where there is none."""

    path: str
    names: Mapping[str, tuple[Origin, ...]]
    stars: tuple[str, ...]
    imports: frozenset[str]
    exports: Exports | None = None

    def may_star(self, name: str) -> bool:
        """Return whether a star import of this module may bring in `name`."""
        exports = self.exports
        return self.may_have(name) and (exports is None or not exports.is_whole or name in exports.names)

    def may_have(self, name: str) -> bool:
        """Return whether another module may get `name` from this one."""
        return bool(self.stars) or name in self.names


def interface_of(file: PythonFile) -> Interface:
    """The interface of a parsed file."""
    return _interface(file.path, file.text, file)


def read_interface(source: SourceFile) -> Interface:
    """The interface of a file, found in a fraction of the time where nothing else about the file is needed.

    Raises:
        TreeError: It is not Python of this interpreter's version, or is nested too deeply.
    """
    walk = Walk(parse(source.text), None, is_outline="global" not in source.text)
    return _interface(source.path, source.text, walk)


def interface_in(source: bytes, path: str) -> Interface | None:
    """The interface of a file of which the bytes are known; None where they are not text or not Python."""
    try:
        return read_interface(read_source(source, path))
    except (SourceReadError, TreeError):
        return None


def listed_names(text: str) -> frozenset[str] | None:
    """The names in `__all__`, where a text says at its end that these are all; None where only the tree shows that.

    `__all__` stands there once, at the start of a line. That is a statement of the module and not within a string or
    brackets if what follows is Python by itself and has no quotes that could end a string of several lines.
    """
    start = text.find("__all__")
    end = text[start:]
    is_start = start >= 0 and not line_before(text, start) and not text[:start].rstrip("\r\n").endswith("\\")
    if not is_start or len(end) > _LONGEST_END or '"""' in end or "'''" in end:
        return None
    if normalize("NFKC", text).count("__all__") != 1:  # as Python reads names
        return None
    first = next(iter(parse_statements(end)), None)
    if not isinstance(first, ast.Assign) or [dotted_name(target) for target in first.targets] != ["__all__"]:
        return None
    names = [string_value(part) for part in _parts(first.value)]
    return None if None in names else frozenset(name for name in names if name is not None)


def _interface(path: str, text: str, found: PythonFile | Walk) -> Interface:
    names = {name: tuple(map(_origin, bindings)) for name, bindings in found.module.bindings.items()}
    # A method may add to it; the text is looked at, as to go over the uses takes longer.
    calls = list(_calls_on_all(found.uses)) if "__all__." in text else []
    exports = _exports(found.module.bindings.get("__all__", ()), calls)
    return Interface(path, names, tuple(found.stars), frozenset(_imports(found.imports)), exports)


def _calls_on_all(uses: Iterable[Use]) -> Iterator[ast.Call]:
    """The calls of methods of `__all__`."""
    for node, _ in uses:
        if isinstance(node, ast.Call) and (dotted_name(node.func) or "").startswith("__all__."):
            yield node


def _exports(bindings: Sequence[Binding], calls: Sequence[ast.Call]) -> Exports | None:
    """The names in what is assigned to `__all__`, and in what is added to it."""
    if not bindings and not calls:
        return None
    parts = [part for binding in bindings for part in _exported(binding)]
    for call in calls:
        name, given = last_name(call.func), call.args[0] if call.args else None
        parts += [given] if name == "append" else _parts(given) if name == "extend" else [None]
    names = [string_value(part) for part in parts]
    return Exports(frozenset(name for name in names if name is not None), None not in names)


def _exported(binding: Binding) -> Sequence[ast.AST | None]:
    """The items that a statement puts into `__all__`."""
    statement = binding.statement if isinstance(binding, Assigned) else None
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return ()
    if isinstance(statement, ast.AugAssign):
        return _parts(statement.value)
    return _parts(binding.whole) if isinstance(binding, Assigned) else [None]


def _parts(value: ast.AST | None) -> list[ast.AST | None]:
    """The items of a list or of a sum of lists, None for those that are not written out."""
    if isinstance(value, ast.BinOp):
        return [*_parts(value.left), *_parts(value.right)]
    if not isinstance(value, (ast.List, ast.Tuple)):
        return [None]
    return [part for each in value.elts for part in (_parts(each.value) if isinstance(each, ast.Starred) else [each])]


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
