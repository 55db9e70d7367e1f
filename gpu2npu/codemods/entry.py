"""The programs of a project: the files that are started, and what of the project each of them runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import libcst as cst

from gpu2npu.codemods.import_graph import ImportGraph
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.reachability import is_main_guard, reached_definitions
from gpu2npu.codemods.syntax import walk
from gpu2npu.engine.tree import children


@dataclass(frozen=True, eq=False)
class Entry:
    """A file that is started, `python train.py`, and the code that may run then.

    `files` are the project's files that it imports, itself among them, by path. `reached` has the ids of the functions
    and classes in them that may be called, as far as names tell; code outside of functions always runs.
    """

    file: ParsedFile
    files: Mapping[str, ParsedFile]
    reached: frozenset[int]

    def runs(self, file: ParsedFile, node: cst.CSTNode) -> bool:
        """Whether a node of one of its files lies in code that it may run."""
        if file.path not in self.files:
            return False
        above = file.parents.get(id(node))
        while above is not None:
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)) and id(above) not in self.reached:
                return False
            if is_main_guard(above) and file is not self.file:
                return False
            above = file.parents.get(id(above))
        return True

    def runs_at(self, file: ParsedFile, offset: int) -> bool:
        """Whether what stands at an offset of one of its files lies in code that it may run."""
        if file.path not in self.files:
            return False
        for node in nodes_of(file, cst.FunctionDef, cst.ClassDef, cst.If):
            start, end = file.positions.of(node)
            outside = id(node) not in self.reached if not isinstance(node, cst.If) else is_main_guard(node)
            if start < offset < end and outside and not (isinstance(node, cst.If) and file is self.file):
                return False
        return True

    def running(self, *kinds: Any) -> Iterator[tuple[ParsedFile, cst.CSTNode]]:
        """The nodes of some kinds in the code that it may run."""
        for file in self.files.values():
            pending: list[cst.CSTNode] = [file.module]
            while pending:
                node = pending.pop()
                if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and id(node) not in self.reached:
                    continue
                if is_main_guard(node) and file is not self.file:
                    continue
                if isinstance(node, kinds):
                    yield file, node
                pending += reversed(children(node))


# A program that loads more files is not followed: to parse them all would take longer than all the rest.
_MOST_FILES = 300


def find_entries(program: Program, paths: Iterable[str]) -> list[Entry]:
    """The programs that load one of some files, by path, if they are not too large to be followed."""
    wanted = frozenset(paths)
    if not wanted:
        return []
    graph = ImportGraph.of(program)
    entries = []
    for path in sorted(graph.that_load(wanted)):
        may_start = b"__main__" in program.sources[path] or path not in graph.importers
        if not may_start or len(graph.loaded_by(path, _MOST_FILES)) > _MOST_FILES:
            continue
        file = program.file(path)
        if file is not None and _is_started(file, path in graph.importers):
            entries.append(_entry(program, graph, file))
    return entries


def entry_of(program: Program, path: str) -> Entry | None:
    """The program that starts with a file; None if that cannot be parsed."""
    file = program.file(path)
    return None if file is None else _entry(program, ImportGraph.of(program), file)


def _entry(program: Program, graph: ImportGraph, file: ParsedFile) -> Entry:
    loaded = {other: program.file(other) for other in sorted(graph.loaded_by(file.path))}
    files = {other: parsed for other, parsed in loaded.items() if parsed is not None}
    others = [parsed for other, parsed in files.items() if other != file.path]
    return Entry(file, files, reached_definitions(file, others))


def _is_started(file: ParsedFile, is_imported: bool) -> bool:
    """Whether a file is a script: it has a main guard, or nothing imports it and it does something by itself."""
    if main_guard(file) is not None:
        return True
    return not is_imported and any(
        isinstance(statement, (cst.For, cst.While, cst.With)) or _calls(statement) for statement in file.module.body
    )


def _calls(statement: cst.CSTNode) -> bool:
    """Whether a statement calls something for its effect: `main()`."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return any(isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) for part in parts)


def main_guard(file: ParsedFile) -> cst.If | None:
    """`if __name__ == '__main__':` at the top level of a file."""
    return next((part for part in file.module.body if isinstance(part, cst.If) and is_main_guard(part)), None)


def nodes_of(file: ParsedFile, *kinds: Any) -> Iterator[Any]:
    """The nodes of some kinds in a file, in source order."""
    return (node for node in walk(file.module) if isinstance(node, kinds))


def calls_in(code: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls in a piece of code, itself among them."""
    return (node for node in walk(code) if isinstance(node, cst.Call))
