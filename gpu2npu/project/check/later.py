"""The files of a project that are loaded only when some function is called, or where an import may fail."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, Mapping

from gpu2npu.python.flow.reachability import is_called_later, is_deferred, may_fail
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import IMPORTS, Import, import_module, imported_names
from gpu2npu.python.tree.syntax_tree import TreeError, parse
from gpu2npu.report.check.result import Part

_BY_NAME = (b"import_module(", b"__import__(")  # these may load any file beside the one that they stand in


class LoadedLater:
    """Finds the files that nothing loads at once. `sources` are the files of a project by path, `part` tells what of
    the project a file belongs to; files of tests, examples and the like are no reason to load one."""

    def __init__(self, sources: Mapping[str, bytes], part: Callable[[str], Part]) -> None:
        python = {path: source for path, source in sources.items() if path.endswith(".py")}
        self._project = Project(frozenset(python), python.__getitem__)
        self._program = {path: source for path, source in python.items() if part(path) is Part.PROGRAM}
        self._answers: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Return whether a file is imported, and only within functions that later calls run, or where the importer
        goes on without it. A file that nothing imports may be a program."""
        if path not in self._answers:
            self._answers[path] = path in self._program and self._is_later(path, frozenset({path}))
        return self._answers[path]

    def _is_later(self, path: str, visited: frozenset[str]) -> bool:
        folder, name = posixpath.split(path)
        if name == "setup.py":  # of an extension that lies in a package, and is built by hand
            package = f"{folder}/__init__.py"
            return package in self._program and package not in visited and self._is_later(package, visited | {package})
        if b"__main__" in self._program[path] or self._may_be_loaded_by_name(folder):
            return False
        importers = dict(self._importers(path))
        return bool(importers) and all(
            other in visited
            or all(self._waits(other, node) for node in nodes)
            or self._is_later(other, visited | {other})
            for other, nodes in importers.items()
        )

    def _may_be_loaded_by_name(self, folder: str) -> bool:
        beside = (source for path, source in self._program.items() if posixpath.dirname(path) == folder)
        return any(word in source for source in beside for word in _BY_NAME)

    def _importers(self, path: str) -> Iterator[tuple[str, list[Import]]]:
        """The files of the program that import a file, each with the statements that do."""
        stem = path.removesuffix(".py").removesuffix("/__init__")
        word = posixpath.basename(stem).encode("utf-8", "surrogateescape")
        within = f"{stem}/" if path.endswith("/__init__.py") else None  # its own modules are loaded after a package
        for other, source in self._program.items():
            if other == path or word not in source or (within is not None and other.startswith(within)):
                continue
            nodes = [node for node in _imports(source) if self._loads(node, other, path)]
            if nodes:
                yield other, nodes

    def _loads(self, node: Import, importer: str, path: str) -> bool:
        names = [name for _, name in imported_names(node)]
        names += [import_module(node)] if isinstance(node, ast.ImportFrom) else []
        modules = (module for name in names for module in _with_packages(name))
        return any(self._project.module_path(module, importer) == path for module in modules)

    def _waits(self, importer: str, node: Import) -> bool:
        """Return whether an import statement is done later, or may fail."""
        source = self._program[importer]
        return is_deferred(source, node.lineno) or may_fail(source, node.lineno)


def is_never_run(path: str, source: bytes, line: int) -> bool:
    """Return whether a line is in a function of a setup script that nothing in the script calls: nobody imports it."""
    return posixpath.basename(path) == "setup.py" and is_called_later(source, line)


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages that are loaded before it: `a.b.c`, `a.b`, `a`."""
    while module.strip("."):
        yield module
        module = module.rpartition(".")[0]


def _imports(source: bytes) -> list[Import]:
    return [node for node in walk(_tree(source)) if isinstance(node, IMPORTS)]


def _tree(source: bytes) -> ast.Module:
    """The tree of a file; an empty one where it cannot be parsed."""
    try:
        return parse(read_source(source, "").text)
    except (SourceReadError, TreeError):
        return ast.Module([], [])
