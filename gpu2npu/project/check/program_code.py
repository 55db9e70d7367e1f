"""The imports between the files of a program, and the functions that run with a file, as far as names say."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from gpu2npu.python.flow.reachability import called_later, may_fail, names_in, run_names, tree_of
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    IMPORTS,
    Definition,
    Import,
    import_module,
    imported_names,
    local_name,
)


class _Imported(Struct, frozen=True):
    """An import statement of the project's own files: their paths, and the local name of each name that it brings in.
    `within` is the definition that it waits for a call of, "" where it is done at once; `is_choice` where the importer
    goes on without it, or a condition in that definition decides."""

    paths: frozenset[str]
    names: Mapping[str, str]
    within: str
    is_choice: bool


class _Code(Struct, frozen=True):
    """A file: its imports of the project's own files, the names in code that runs with it, and those in each of its
    definitions at the top."""

    imports: Sequence[_Imported]
    run: frozenset[str]
    definitions: Mapping[str, frozenset[str]]


class ProgramCode:
    """The Python files of a program by path, `sources`; each is parsed once, when it is first needed. `project`
    finds the files that imports mean, `is_entry` says whether a file's function is an entry point."""

    def __init__(self, sources: Mapping[str, bytes], project: Project, is_entry: Callable[[str, str], bool]) -> None:
        self._sources, self._project, self._is_entry = sources, project, is_entry
        self._codes: dict[str, _Code] = {}
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
            imports = [each for each in self._code(other).imports if path in each.paths]
            if imports:
                yield other, all(self._waits(other, each) for each in imports)

    def _waits(self, importer: str, imported: _Imported) -> bool:
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
            if name in self._code(path).run or self._is_entry(path, name):
                return True
            for found in self._naming(path, name):
                if found not in seen:
                    seen.add(found)
                    pending.append(found)
        return False

    def _naming(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """The names by which other files import a definition, and the definitions that name it."""
        yield from ((path, other) for other, names in self._code(path).definitions.items() if name in names)
        for other in self._spelling(name):
            code = self._code(other) if other != path else None
            if code is None:
                continue
            local = {each.names[name] for each in code.imports if name in each.names}
            if any(path in each.paths for each in code.imports):
                local.add(name)  # as a member of the module, or by a star
            yield from ((other, each) for each in local)

    def _spelling(self, name: str) -> Iterator[str]:
        word = name.encode("utf-8", "surrogateescape")
        return (path for path, source in self._sources.items() if word in source)

    def _code(self, path: str) -> _Code:
        if path not in self._codes:
            source = self._sources[path]
            tree = tree_of(source)
            imports = (self._imported(source, node, path) for node in walk(tree) if isinstance(node, IMPORTS))
            definitions = [node for node in tree.body if isinstance(node, DEFINITIONS)]
            decorators = {name for node in definitions for each in node.decorator_list for name in names_in(each)}
            self._codes[path] = _Code(
                [each for each in imports if each.paths],
                run_names(source) | decorators,
                {node.name: frozenset(names_in(node)) for node in definitions},
            )
        return self._codes[path]

    def _imported(self, source: bytes, node: Import, importer: str) -> _Imported:
        modules = [name for _, name in imported_names(node)]
        modules += [import_module(node)] if isinstance(node, ast.ImportFrom) else []
        named = (self._project.module_path(each, importer) for name in modules for each in _with_packages(name))
        paths = frozenset(path for path in named if path is not None)
        names = (
            {alias.name: local_name(alias, node) for alias in node.names} if isinstance(node, ast.ImportFrom) else {}
        )
        if not paths or not node.col_offset:
            return _Imported(paths, names, "", is_choice=False)
        outer = called_later(source, node.lineno)
        is_choice = may_fail(source, node.lineno) or (outer is not None and _depends(outer, node))
        return _Imported(paths, names, outer.name if outer is not None else "", is_choice)


def _depends(outer: Definition, node: Import) -> bool:
    """Return whether an import stands below a condition of a definition."""
    conditions = (each for each in walk(outer) if isinstance(each, (ast.If, ast.Match)))
    return any(each.lineno <= node.lineno <= (each.end_lineno or 0) for each in conditions)


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages that are loaded before it: `a.b.c`, `a.b`, `a`."""
    while module.strip("."):
        yield module
        module = module.rpartition(".")[0]
