"""The imports between the files of a program, and the functions that run with a file, as far as names say."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from gpu2npu.python.flow.reachability import called_later, may_fail, names_in, run_names, tree_of
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    FORS,
    IMPORTS,
    TRIES,
    WITHS,
    Definition,
    Import,
    blocks,
    import_module,
    imported_names,
    local_name,
)

_VALUES = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)


class ImportOutline(Struct, frozen=True, array_like=True):
    """An import statement: the modules that it may mean, and the local name of each name that it brings in. `within`
    is the definition that it waits for a call of, "" where it is done at once; `is_choice` where the importer goes on
    without it, or a condition in that definition decides."""

    modules: tuple[str, ...]
    names: dict[str, str]
    within: str
    is_choice: bool


class Outline(Struct, frozen=True, array_like=True):
    """A file by its text alone: its imports, the names in code that runs with it, and those in each of its definitions
    at the top; and whether it does more at its top than to define, to import and to set values. Modules of a package
    register and set up what they offer by loops and methods: of them only calls of functions for effect count."""

    imports: tuple[ImportOutline, ...]
    run: frozenset[str]
    definitions: dict[str, frozenset[str]]
    acts: bool
    acts_in_package: bool


class _Imported(Struct, frozen=True):
    """An import of the project's own files: their paths, and the statement."""

    paths: frozenset[str]
    statement: ImportOutline


class ProgramCode:
    """The Python files of a program by path, `sources`; each whose outline is not in `outlines` is parsed once, when it
    is first needed. `project` finds the files that imports mean, `is_entry` says whether a file's function is an entry
    point."""

    def __init__(
        self,
        sources: Mapping[str, bytes],
        project: Project,
        is_entry: Callable[[str, str], bool],
        outlines: dict[str, Outline],
    ) -> None:
        self._sources, self._project, self._is_entry, self._outlines = sources, project, is_entry, outlines
        self._imports: dict[str, tuple[_Imported, ...]] = {}
        self._importers: dict[str, Mapping[str, bool]] = {}
        self._called: dict[tuple[str, str], bool] = {}

    def importers(self, path: str) -> Mapping[str, bool]:
        """The files that import a file. True: only where a later call does, or where they go on without it."""
        if path not in self._importers:
            self._importers[path] = dict(self._found_importers(path))
        return self._importers[path]

    def _found_importers(self, path: str) -> Iterator[tuple[str, bool]]:
        stem = path.removesuffix(".py").removesuffix("/__init__")
        within = f"{stem}/" if path.endswith("/__init__.py") else None  # its own modules are loaded after a package
        for other in self._spelling(posixpath.basename(stem)):
            if other == path or (within is not None and other.startswith(within)):
                continue
            imports = [each.statement for each in self._own_imports(other) if path in each.paths]
            if imports:
                yield other, all(self._waits(other, each) for each in imports)

    def _waits(self, importer: str, imported: ImportOutline) -> bool:
        return imported.is_choice or (imported.within != "" and not self._is_called(importer, imported.within))

    def _is_called(self, path: str, name: str) -> bool:
        if (path, name) not in self._called:
            self._called[path, name] = self._runs(path, name)
        return self._called[path, name]

    def _runs(self, path: str, name: str) -> bool:
        """Return whether code that runs with some file names a definition, or names one that names it, and so on."""
        pending = [(path, name)]
        seen = set(pending)
        while pending:
            path, name = pending.pop()
            if name in self.outline(path).run or self._is_entry(path, name):
                return True
            for found in self._naming(path, name):
                if found not in seen:
                    seen.add(found)
                    pending.append(found)
        return False

    def _naming(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """The names by which other files import a definition, and the definitions that name it."""
        yield from ((path, other) for other, names in self.outline(path).definitions.items() if name in names)
        for other in self._spelling(name):
            if other == path:
                continue
            imports = self._own_imports(other)
            local = {each.statement.names[name] for each in imports if name in each.statement.names}
            if any(path in each.paths for each in imports):
                local.add(name)  # as a member of the module, or by a star
            yield from ((other, each) for each in local)

    def _spelling(self, name: str) -> Iterator[str]:
        word = name.encode("utf-8", "surrogateescape")
        return (path for path, source in self._sources.items() if word in source)

    def outline(self, path: str) -> Outline:
        """The outline of a file."""
        if path not in self._outlines:
            self._outlines[path] = _outline(self._sources[path])
        return self._outlines[path]

    def _own_imports(self, path: str) -> tuple[_Imported, ...]:
        """The imports of a file that are of the project's own files."""
        if path not in self._imports:
            found = (_Imported(self._paths(each, path), each) for each in self.outline(path).imports)
            self._imports[path] = tuple(each for each in found if each.paths)
        return self._imports[path]

    def _paths(self, imported: ImportOutline, importer: str) -> frozenset[str]:
        named = (
            self._project.module_path(each, importer) for name in imported.modules for each in _with_packages(name)
        )
        return frozenset(path for path in named if path is not None)


def _outline(source: bytes) -> Outline:
    tree = tree_of(source)
    definitions = [node for node in tree.body if isinstance(node, DEFINITIONS)]
    decorators = {name for node in definitions for each in node.decorator_list for name in names_in(each)}
    return Outline(
        tuple(_imported(source, node) for node in walk(tree) if isinstance(node, IMPORTS)),
        run_names(source) | decorators,
        {node.name: frozenset(names_in(node)) for node in definitions},
        _acts(tree.body),
        _acts_in_package(tree.body),
    )


def _imported(source: bytes, node: Import) -> ImportOutline:
    modules = [name for _, name in imported_names(node)]
    modules += [import_module(node)] if isinstance(node, ast.ImportFrom) else []
    names = {alias.name: local_name(alias, node) for alias in node.names} if isinstance(node, ast.ImportFrom) else {}
    if not node.col_offset:
        return ImportOutline(tuple(modules), names, "", is_choice=False)
    outer = called_later(source, node.lineno)
    is_choice = may_fail(source, node.lineno) or (outer is not None and _depends(outer, node))
    return ImportOutline(tuple(modules), names, outer.name if outer is not None else "", is_choice)


def _depends(outer: Definition, node: Import) -> bool:
    """Return whether an import stands below a condition of a definition."""
    conditions = (each for each in walk(outer) if isinstance(each, (ast.If, ast.Match)))
    return any(each.lineno <= node.lineno <= (each.end_lineno or 0) for each in conditions)


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages that are loaded before it: `a.b.c`, `a.b`, `a`."""
    while module.strip("."):
        yield module
        module = module.rpartition(".")[0]


def _acts_in_package(body: Iterable[ast.stmt]) -> bool:
    calls = (node.value for node in _top(body) if isinstance(node, ast.Expr))
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Name) for call in calls)


def _acts(body: Iterable[ast.stmt]) -> bool:
    return any(
        isinstance(node, (*FORS, *WITHS, ast.While))
        or (isinstance(node, _VALUES) and any(isinstance(each, ast.Call) for each in walk(node)))
        for node in _top(body)
    )


def _top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top of a module, also those below conditions; what handles an error is left out."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, *TRIES)):
            for block in blocks(node):
                yield from _top(block)
