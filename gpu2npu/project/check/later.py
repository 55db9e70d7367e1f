"""The code of a project that runs only when some function is called, or where an import may fail."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property

from msgspec import Struct

from gpu2npu.project.installation import entry_points
from gpu2npu.python.facts.outline import ImportOutline, Outline
from gpu2npu.python.facts.reading import read_outline
from gpu2npu.python.flow.reachability import is_called_later, is_deferred, tree_of
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import IMPORT_FUNCTIONS, IMPORTS, imported_names, last_name
from gpu2npu.records import Finding, Severity
from gpu2npu.report.check.result import Part


class _Imported(Struct, frozen=True):
    """An import of the project's own files: their paths, and the statement."""

    paths: frozenset[str]
    statement: ImportOutline


class ProgramCode:
    """The Python files of a program by their outlines. `project` finds the files that imports mean, `is_entry` says
    whether a file's function is an entry point."""

    def __init__(self, outlines: Mapping[str, Outline], project: Project, is_entry: Callable[[str, str], bool]) -> None:
        self.outlines = outlines
        self._project, self._is_entry = project, is_entry
        self.importers = cache(self._found_importers)
        self._is_called = cache(self._runs)

    def _found_importers(self, path: str) -> Mapping[str, bool]:
        """The files that import a file. True: only where a later call does, or where they go on without it."""
        stem = path.removesuffix(".py").removesuffix("/__init__")
        within = f"{stem}/" if path.endswith("/__init__.py") else None  # its own modules are loaded after a package
        return {
            other: all(self._waits(other, each) for each in imports)
            for other, imports in self._importing.get(path, {}).items()
            if other != path and not (within is not None and other.startswith(within))
        }

    def _waits(self, importer: str, imported: ImportOutline) -> bool:
        return imported.is_choice or (imported.within != "" and not self._is_called(importer, imported.within))

    def _runs(self, path: str, name: str) -> bool:
        """Return whether code that runs with some file names a definition, or names one that names it, and so on."""
        pending = [(path, name)]
        seen = set(pending)
        while pending:
            path, name = pending.pop()
            if name in self.outlines[path].run or self._is_entry(path, name):
                return True
            for found in self._naming(path, name):
                if found not in seen:
                    seen.add(found)
                    pending.append(found)
        return False

    def _naming(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """The names by which other files import a definition, and the definitions that name it."""
        yield from ((path, other) for other, names in self.outlines[path].definitions.items() if name in names)
        yield from ((other, local) for other, local in self._local_names.get(name, ()) if other != path)
        for other, imports in self._importing.get(path, {}).items():  # as a member of the module, or by a star
            if other != path and (self._has(other, name) or any("*" in each.names for each in imports)):
                yield other, name

    def _has(self, path: str, name: str) -> bool:
        outline = self.outlines[path]
        return name in outline.run or any(name in names for names in outline.definitions.values())

    @cached_property
    def _importing(self) -> Mapping[str, Mapping[str, list[ImportOutline]]]:
        """The imports of a file by the files that have them."""
        found: dict[str, dict[str, list[ImportOutline]]] = {}
        for other, imports in self._own_imports.items():
            for each in imports:
                for path in each.paths:
                    found.setdefault(path, {}).setdefault(other, []).append(each.statement)
        return found

    @cached_property
    def _local_names(self) -> Mapping[str, set[tuple[str, str]]]:
        """The files that import a name from files of the project, each with its own name for it."""
        found: dict[str, set[tuple[str, str]]] = {}
        for path, imports in self._own_imports.items():
            for each in imports:
                for name, local in each.statement.names.items():
                    found.setdefault(name, set()).add((path, local))
        return found

    @cached_property
    def _own_imports(self) -> Mapping[str, tuple[_Imported, ...]]:
        """The imports of each file that are of the project's own files."""
        return {
            path: tuple(_Imported(paths, each) for each in outline.imports if (paths := self._paths(each, path)))
            for path, outline in self.outlines.items()
        }

    def _paths(self, imported: ImportOutline, importer: str) -> frozenset[str]:
        named = (
            self._project.module_path(each, importer) for name in imported.modules for each in _with_packages(name)
        )
        return frozenset(path for path in named if path is not None)


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages that are loaded before it: `a.b.c`, `a.b`, `a`."""
    while module.strip("."):
        yield module
        module = module.rpartition(".")[0]


_BUILD_SCRIPT = "setup.py"
_BUILDERS = ("setuptools", "distutils", "torch.utils.cpp_extension")


def may_be_later(path: str, finding: Finding) -> bool:
    """Return whether it matters for a finding about a file when its code runs: what blocks, and a build script."""
    return finding.severity is Severity.BLOCKER or posixpath.basename(path) == _BUILD_SCRIPT


class LaterCode:
    """Finds the code that does not run at once. `sources` are the files of a project by path, and `part` gives the part
    of the project that a file is in: files of tests, examples and the like do not count as loading one."""

    def __init__(self, sources: Mapping[str, bytes], part: Callable[[str], Part]) -> None:
        python = {path: source for path, source in sources.items() if path.endswith(".py")}
        self._sources = sources
        self._project = Project(frozenset(python), python.__getitem__)
        self._program = {path: source for path, source in python.items() if part(path) is Part.PROGRAM}
        self._outlines = {path: read_outline(source, path) or Outline() for path, source in self._program.items()}
        self._code = ProgramCode(self._outlines, self._project, lambda entry, name: (entry, name) in self._entries)
        self.is_loaded_later = cache(self._is_loaded_later)
        self._may_be_program = cache(self._is_started)

    def holds(self, path: str, finding: Finding) -> bool:
        """Return whether a finding is about such code of the program: what blocks in an import that is done within a
        function alone, or in a file that is loaded later, and all in a function that a build script does not call."""
        if path not in self._program:
            return False
        source, line = self._program[path], finding.span.start_line
        if self._is_build_script(path) and is_called_later(source, line):
            return True
        return finding.severity is Severity.BLOCKER and (is_deferred(source, line) or self.is_loaded_later(path))

    def _is_loaded_later(self, path: str) -> bool:
        """Return whether a file is imported, and only within functions that later calls run, or where the importer
        goes on without it. A file that nothing imports may be a program. Of the imports that are done at once, files
        that import each other are loaded from outside of them."""
        if path not in self._program:
            return False
        pending, seen = [path], {path}
        waiting: set[str] = set()
        while pending:
            each = pending.pop()
            importers = self._importers(each)
            if not importers or self._may_be_program(each):
                return False
            waiting |= {other for other, waits in importers.items() if waits}
            at_once = {other for other, waits in importers.items() if not waits} - seen
            seen |= at_once
            pending += at_once
        return self._has_start(waiting - seen, seen)

    def _has_start(self, paths: set[str], within: set[str]) -> bool:
        """Return whether files outside of some may be started, or are imported by such, and so on."""
        pending, seen = list(paths), within | paths
        while pending:
            path = pending.pop()
            importers = self._importers(path)
            if not importers or self._may_be_program(path):
                return True
            pending += importers.keys() - seen
            seen |= importers.keys()
        return False

    def _importers(self, path: str) -> Mapping[str, bool]:
        """The files that import a file. A build script that is in a package is built by hand for that."""
        package = f"{posixpath.dirname(path)}/__init__.py"
        if package in self._program and self._is_build_script(path):
            return {package: False}
        return self._code.importers(path)

    def _is_build_script(self, path: str) -> bool:
        if posixpath.basename(path) != _BUILD_SCRIPT or path not in self._program:
            return False
        nodes = list(walk(tree_of(self._program[path])))
        imported = [name for node in nodes if isinstance(node, IMPORTS) for _, name in imported_names(node)]
        calls = any(isinstance(node, ast.Call) and last_name(node.func) == "setup" for node in nodes)
        builds = any(f"{name}.".startswith(f"{builder}.") for name in imported for builder in _BUILDERS)
        return calls and builds and not self._code.importers(path)

    def _is_started(self, path: str) -> bool:
        facts = self._project.facts(path, path)
        if (facts is not None and "__main__" in facts.texts) or path in {entry for entry, _ in self._entries}:
            return True
        if self._is_build_script(path):
            return False
        folder = posixpath.dirname(path)
        in_package = f"{folder}/__init__.py" in self._program
        code = self._outlines[path]
        return folder in self._loaded_by_name or (code.acts_in_package if in_package else code.acts)

    @cached_property
    def _entries(self) -> frozenset[tuple[str, str]]:
        """The files and functions that an installed package starts with."""
        found = ((self._project.module_path(module, path), name) for path, module, name in entry_points(self._sources))
        return frozenset((path, name.partition(".")[0]) for path, name in found if path is not None)

    @cached_property
    def _loaded_by_name(self) -> frozenset[str]:
        """The folders of which any file may be loaded by a name that is made up."""
        facts = ((path, self._project.facts(path, path)) for path in self._program)
        loading = (path for path, each in facts if each is not None and not IMPORT_FUNCTIONS.isdisjoint(each.called))
        return frozenset(map(posixpath.dirname, loading))
