"""The functions and classes that a program may run, and the code that does not run with its file, as far as names say.

A function counts as called where its name appears in code that runs: a method by any attribute of its name, another
function by a name that its file does not define itself, or an attribute of what is imported. That says too much where
two functions share a name, and too little only where a name is put together at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct

from gpu2npu.python.facts.outline import called_later, outline_of
from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.file import PythonFile, parsed_file
from gpu2npu.python.tree.nodes import child_nodes, walk
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    IMPORT_FUNCTIONS,
    IMPORTS,
    Definition,
    is_main_guard,
    last_name,
    local_name,
)
from gpu2npu.python.tree.syntax_tree import TreeError

# Decorators that leave a function to those who call it; others may put it into a registry, or make it a command.
PLAIN_DECORATORS = frozenset(
    {
        "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass", "lru_cache",
        "overload", "property", "setter", "staticmethod", "wraps",
    }
)  # fmt: skip
# Names of files in which pytest looks for tests: it starts their functions, whatever the files themselves start.
# https://docs.pytest.org/en/stable/explanation/goodpractices.html#test-discovery
TEST_FILE = r"test_\w+\.py|\w+_test\.py"


class _Code(Struct, frozen=True, eq=False):
    """A piece of code: the names in it, but for those inside of definitions, the definitions of its file that it names,
    and those in it that are decorated."""

    names: frozenset[str]
    own: frozenset[Definition]
    decorated: Sequence[Definition]


class NamesInFile(Struct, frozen=True, eq=False):
    """The names in a file by the code they are in: `imported` is run when the file is imported, `started` when it is
    a script, and `bodies` when its definitions are called. `owners` are the classes of methods."""

    imported: _Code
    started: _Code
    bodies: Mapping[Definition, _Code]
    owners: Mapping[Definition, ast.ClassDef]

    @classmethod
    def of(cls, file: ParsedFile) -> NamesInFile:
        """Go over a file once."""
        guarded = [statement for statement in file.tree.body if is_main_guard(statement)]
        imported = [statement for statement in file.tree.body if not is_main_guard(statement)]
        definitions = file.definitions
        imports = [each for each in (*file.nodes(ast.Import), *file.nodes(ast.ImportFrom)) if isinstance(each, IMPORTS)]
        modules = frozenset(local_name(alias, node) for node in imports for alias in node.names)
        top = frozenset(file.tree.body)
        own = {node.name: node for node in definitions if node in top and node.name not in modules}
        bodies = {node: _code(_run(node), modules, own) for node in definitions}
        owners: dict[Definition, ast.ClassDef] = {}
        for node in definitions:
            above = next((each for each in file.above(node) if isinstance(each, DEFINITIONS)), None)
            if isinstance(above, ast.ClassDef):
                owners[node] = above
        return cls(_code(imported, modules, own), _code([*imported, *guarded], modules, own), bodies, owners)


def _run(node: Definition) -> list[ast.AST]:
    """The code that runs when a function is called, or a class is made."""
    return [*node.bases, *node.body] if isinstance(node, ast.ClassDef) else [*node.body]


def _code(nodes: Iterable[ast.AST], modules: frozenset[str], own: Mapping[str, Definition]) -> _Code:
    names: set[str] = set()
    found: set[Definition] = set()
    decorated: list[Definition] = []
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, DEFINITIONS):
            if node.decorator_list:
                decorated.append(node)
                pending += node.decorator_list
            if isinstance(node, FUNCTIONS):
                pending.append(node.args)
            continue
        if isinstance(node, ast.Name) and node.id in own:
            found.add(own[node.id])
        else:
            names.update(_written(node, modules))
        pending += child_nodes(node)
    return _Code(frozenset(names), frozenset(found), decorated)


def _written(node: ast.AST, modules: frozenset[str]) -> Iterator[str]:
    """The names that a node itself is written with; of an import with `as` the original one. An attribute of what was
    not imported has a dot before it."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        first = node.value
        while isinstance(first, ast.Attribute):
            first = first.value
        may_be_module = isinstance(first, ast.Name) and first.id in modules
        may_be_module = may_be_module or (isinstance(first, ast.Call) and last_name(first.func) in IMPORT_FUNCTIONS)
        yield node.attr if may_be_module else f".{node.attr}"
    elif isinstance(node, (ast.arg, ast.keyword)):
        if node.arg is not None:
            yield node.arg
    elif isinstance(node, ast.alias):
        if node.asname is not None:
            yield node.name.rpartition(".")[2]
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names


class DefinitionIndex(Struct, frozen=True, eq=False):
    """The definitions of some files by name, with their code and their classes. Many programs share one."""

    loaded: Sequence[NamesInFile]
    by_name: Mapping[str, Sequence[Definition]]
    bodies: Mapping[Definition, _Code]
    owners: Mapping[Definition, ast.ClassDef]

    @classmethod
    def of(cls, files: Iterable[NamesInFile]) -> DefinitionIndex:
        """Go over some files once."""
        loaded = list(files)
        by_name: dict[str, list[Definition]] = {}
        bodies: dict[Definition, _Code] = {}
        owners: dict[Definition, ast.ClassDef] = {}
        for file in loaded:
            bodies |= file.bodies
            owners |= file.owners
            for definition in file.bodies:
                by_name.setdefault(definition.name, []).append(definition)
        return cls(loaded, by_name, bodies, owners)


def reached_definitions(
    entry: NamesInFile,
    others: DefinitionIndex,
    plain: frozenset[str] = PLAIN_DECORATORS,
    called: Sequence[str] = (),
    chosen: Iterable[Definition] = (),
) -> frozenset[Definition]:
    """The functions and classes that may run when the file `entry` is started and loads the others. `plain` are
    decorators that leave a function to those who call it, `called` methods that a library calls, `chosen` definitions
    of the others that are taken by names made up at run time."""
    search = _Search((DefinitionIndex.of([entry]), others), plain, called)
    search.run([entry.started])
    search.run([*search.reach(chosen, others)])
    search.run([file.imported for file in others.loaded])
    return frozenset(search.reached)


def called_definitions(
    file: NamesInFile,
    definition: Definition,
    others: DefinitionIndex,
    plain: frozenset[str] = PLAIN_DECORATORS,
    called: Sequence[str] = (),
) -> frozenset[Definition]:
    """The functions and classes that may run when code elsewhere imports `file`, which loads the others, and calls a
    function or method of it, or makes an object of a class and calls any of its methods. `plain` and `called` are those
    of reached_definitions."""
    own = DefinitionIndex.of([file])
    search = _Search((own, others), plain, called)
    search.run([file.imported, *(each.imported for each in others.loaded)])
    classes = [definition]
    while (owner := file.owners.get(classes[0])) is not None:
        classes.insert(0, owner)
    methods = [method for method in file.bodies if file.owners.get(method) is definition]
    for each in (*classes, *methods):
        search.run([*search.reach([each], own)])
    return frozenset(search.reached)


@dataclass(eq=False)
class _Search:
    indexes: Sequence[DefinitionIndex]
    plain: frozenset[str]
    called: Sequence[str]
    named: set[str] = field(default_factory=set)
    reached: set[Definition] = field(default_factory=set)

    def run(self, code: Iterable[_Code]) -> None:
        """The definitions that code names are reached, and so on."""
        pending = list(code)
        while pending:
            piece = pending.pop()
            new = piece.names - self.named
            self.named |= new
            for index in self.indexes:
                for name in new:
                    found = index.by_name.get(name.removeprefix("."), ())
                    pending += self.reach((each for each in found if name[0] != "." or each in index.owners), index)
                registered = (each for each in piece.decorated if self.is_registered(each))
                reached = [each for each in (*piece.own, *registered) if each in index.bodies]
                pending += self.reach(reached, index)

    def reach(self, definitions: Iterable[Definition], index: DefinitionIndex) -> Iterator[_Code]:
        """Mark definitions; gives their code, and that of the methods that then may run."""
        for definition in definitions:
            owner = index.owners.get(definition)
            if definition in self.reached or (owner is not None and owner not in self.reached):
                continue
            self.reached.add(definition)
            yield index.bodies[definition]
            if isinstance(definition, ast.ClassDef):
                methods = [part for part in definition.body if isinstance(part, FUNCTIONS)]
                yield from self.reach([method for method in methods if self.may_run(method.name)], index)

    def may_run(self, name: str) -> bool:
        is_named = name in self.named or f".{name}" in self.named
        return is_named or name in self.called or (name.startswith("__") and name.endswith("__"))

    def is_registered(self, definition: Definition) -> bool:
        return any(last_name(decorator) not in self.plain for decorator in definition.decorator_list)


def is_deferred(source: bytes, line: int) -> bool:
    """Return whether a line of a Python file is an import that is done only when some function is called.

    Lines that use what such an import brought into the same function count too.
    """
    outer = _called_later(source, line)
    if outer is None:
        return False
    if any(isinstance(node, IMPORTS) and _holds(node, line) for node in walk(outer)):
        return True
    functions = (node for node in walk(outer) if isinstance(node, FUNCTIONS) and _holds(node, line))
    imports = [node for function in functions for node in walk(function) if isinstance(node, IMPORTS)]
    names = {local_name(alias, node) for node in imports for alias in node.names}
    return any(isinstance(node, ast.Name) and node.lineno == line and node.id in names for node in walk(outer))


def is_called_later(source: bytes, line: int) -> bool:
    """Return whether a line of a Python file is in a function that only a later call runs.

    No code that runs with the file, or is reached from there by names, calls that function.
    """
    return _called_later(source, line) is not None


def _called_later(source: bytes, line: int) -> Definition | None:
    """The outermost definition around a line that only a later call runs; None for others."""
    file, run = _file_and_run(source)
    node: ast.AST | None = file.tree if file is not None else None
    inner: ast.AST | None = None
    while node is not None:
        inner, node = node, next((each for each in ast.iter_child_nodes(node) if _holds(each, line)), None)
    return called_later(file, inner, run) if file is not None and inner is not None else None


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)


@lru_cache(maxsize=1)  # the lines of a file are looked up one after the other
def _file_and_run(source: bytes) -> tuple[PythonFile | None, frozenset[str]]:
    """A file, None where it cannot be parsed, and the names in the code that runs with it."""
    try:
        file = parsed_file(read_source(source, ""))
    except (SourceReadError, TreeError):
        return None, frozenset()
    return file, outline_of(file).run


def tree_of(source: bytes) -> ast.Module:
    """The tree of a file; an empty one where it cannot be parsed."""
    file, _ = _file_and_run(source)
    return file.tree if file is not None else ast.Module([], [])
