"""The programs of a project: the files that are started, and what of the project each of them runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from gpu2npu.codemods.program.files import MEMBERS, ParsedFile, TrainingProgram
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.flow.reachability import (
    PLAIN_DECORATORS,
    DefinitionIndex,
    NamesInFile,
    called_definitions,
    reached_definitions,
)
from gpu2npu.python.project.imports import ImportGraph, chosen_by_name
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, IMPORT_FUNCTIONS, Definition, is_main_guard, last_name

_Node = TypeVar("_Node", bound=ast.AST)
# Finds nodes in a file, whatever program it is part of.
Find = Callable[[ParsedFile], Sequence[_Node]]

_PLAIN = PLAIN_DECORATORS | {"autocast", "enable_grad", "inference_mode", "no_grad", "script"}


class Entry(Struct, frozen=True, eq=False):
    """A file that is started, `python train.py`, and the code that may run then.

    `files` are the project's files that it imports, itself among them, by path. `reached` are the functions and classes
    in them that may be called, as far as names say; code outside of functions always runs. A library is not started:
    programs outside of the project import it and call the definition `called` (see library_entry).
    """

    program: TrainingProgram
    file: ParsedFile
    files: Mapping[str, ParsedFile]
    reached: frozenset[Definition]
    called: Definition | None = None

    @property
    def is_library(self) -> bool:
        return self.called is not None

    def runs(self, file: ParsedFile, node: ast.AST) -> bool:
        """Return whether a node of one of the program's files is in code that the program may run."""
        return file.path in self.files and all(self._enters(file, above) for above in file.above(node))

    def _enters(self, file: ParsedFile, node: ast.AST) -> bool:
        if isinstance(node, DEFINITIONS):
            return node in self.reached
        return (file is self.file and not self.is_library) or not is_main_guard(node)

    def runs_at(self, file: ParsedFile, offset: int) -> bool:
        """Return whether what is at an offset of one of the program's files is in code that it may run."""
        if file.path not in self.files:
            return False
        spans = self.program.of_file(_entered, file)
        return all(self._enters(file, node) for start, end, node in spans if start < offset < end)

    def running(self, find: Find[_Node]) -> Iterator[tuple[ParsedFile, _Node]]:
        """The nodes that a function finds in the code that it may run."""
        for file in self.files.values():
            for node in self.program.of_file(find, file):
                if self.runs(file, node):
                    yield file, node


class Entries:
    """Several programs of a project, searched together: what each of them runs is looked up by file and definition."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.all = tuple(entries)
        self._loading: dict[ParsedFile, list[Entry]] = {}
        self._reaching: dict[Definition, list[Entry]] = {}
        self._known: dict[ast.AST, tuple[Entry, ...]] = {}
        for entry in self.all:
            for file in entry.files.values():
                self._loading.setdefault(file, []).append(entry)
            for definition in entry.reached:
                self._reaching.setdefault(definition, []).append(entry)

    def that_run(self, file: ParsedFile, node: ast.AST) -> tuple[Entry, ...]:
        """The programs that may run a node."""
        inside = _inside(file, node)
        if inside not in self._known:
            likely = (
                self._loading.get(file, []) if not isinstance(inside, DEFINITIONS) else self._reaching.get(inside, [])
            )
            self._known[inside] = tuple(entry for entry in likely if entry.runs(file, node))
        return self._known[inside]

    def that_run_at(self, file: ParsedFile, offset: int) -> list[Entry]:
        """The programs that may run what is at an offset."""
        return [entry for entry in self._loading.get(file, ()) if entry.runs_at(file, offset)]

    def running(self, find: Find[_Node]) -> Iterator[tuple[ParsedFile, _Node]]:
        """The nodes that a function finds in the code that one of the programs may run, each once."""
        for file, entries in self._loading.items():
            for node in entries[0].program.of_file(find, file):
                if self.that_run(file, node):
                    yield file, node


def _inside(file: ParsedFile, node: ast.AST) -> ast.AST:
    """The definition or main guard that decides whether a node runs; else the module."""
    return next((part for part in file.above(node) if isinstance(part, DEFINITIONS) or is_main_guard(part)), file.tree)


def _entered(file: ParsedFile) -> list[tuple[int, int, ast.AST]]:
    """The places of the definitions and main guards of a file, with these."""
    guards = [node for node in file.nodes(ast.If) if is_main_guard(node)]
    return [(*file.bounds(node), node) for node in (*file.definitions, *guards)]


# A program that loads more files is not followed: to parse them all would take longer than all the rest.
_MOST_FILES = 300


def find_entries(program: TrainingProgram, paths: Iterable[str]) -> list[Entry]:
    """The programs that load one of some files, by path, if they are not too large to be followed."""
    entries = (entry_of(program, path) for path in started_files(program, paths))
    return [entry for entry in entries if entry is not None]


def started_files(program: TrainingProgram, paths: Iterable[str]) -> list[str]:
    """The files that are started and load one of some files, if they do not load too many to be followed."""
    wanted = frozenset(paths)
    if not wanted:
        return []
    graph = ImportGraph.of(program)
    found = (path for path in sorted(graph.that_load(wanted)) if _is_started(program, graph, path))
    return [path for path in found if not _is_too_large(graph, path)]


def _is_too_large(graph: ImportGraph, path: str) -> bool:
    return len(graph.loaded_by(path, _MOST_FILES)) > _MOST_FILES


def library_entry(program: TrainingProgram, file: ParsedFile, called: Definition) -> Entry | None:
    """The programs outside of the project that call one of a file's definitions, taken as one; None if the file loads
    too many others to be followed."""
    graph = ImportGraph.of(program)
    if _is_too_large(graph, file.path):
        return None
    names, files, index = _loaded(program, file)
    reached = called_definitions(names, called, index, _PLAIN, program.project.library.object_calls)
    return Entry(program, file, files, reached, called)


def entry_of(program: TrainingProgram, path: str) -> Entry | None:
    """The program that starts with a file; None if that cannot be parsed."""
    file = program.file(path)
    return None if file is None else program.once((Entry, file.path), lambda: _new_entry(program, file))


def _new_entry(program: TrainingProgram, file: ParsedFile) -> Entry:
    names, files, index = _loaded(program, file)
    taking = [path for path, loaded in files.items() if program.of_file(_takes_modules, loaded)]
    chosen = [
        part
        for path in sorted(chosen_by_name(program, taking))
        if path in files and path != file.path
        for part in files[path].tree.body
        if isinstance(part, DEFINITIONS)
    ]
    by_library = program.project.library.object_calls
    return Entry(program, file, files, reached_definitions(names, index, _PLAIN, by_library, chosen))


def _takes_modules(file: ParsedFile) -> bool:
    """Return whether a file uses what a call of `import_module` gives: not `import_module(plugin)` as a statement."""
    is_likely = any(name in file.text for name in IMPORT_FUNCTIONS)
    calls = (call for call in all_calls(file) if last_name(call.func) in IMPORT_FUNCTIONS) if is_likely else ()
    return any(not isinstance(file.parents[call], ast.Expr) for call in calls)


def _loaded(
    program: TrainingProgram, file: ParsedFile
) -> tuple[NamesInFile, Mapping[str, ParsedFile], DefinitionIndex]:
    """The names in a file, the files that are loaded with it, itself among them, and the definitions of the others."""
    loaded = {other: program.file(other) for other in sorted(ImportGraph.of(program).loaded_by(file.path))}
    files = {other: parsed for other, parsed in loaded.items() if parsed is not None}
    names = program.of_file(NamesInFile.of, file)
    others = frozenset(files) - {file.path}
    index = program.once((DefinitionIndex, others), lambda: _index(program, [files[path] for path in sorted(others)]))
    return names, files, index


def _index(program: TrainingProgram, files: Iterable[ParsedFile]) -> DefinitionIndex:
    return DefinitionIndex.of(program.of_file(NamesInFile.of, file) for file in files)


def _is_started(program: TrainingProgram, graph: ImportGraph, path: str) -> bool:
    """Return whether a file is a script: it has a main guard, or nothing imports it and it does something by itself."""
    facts = program.project.facts(path, path)
    return facts is not None and (facts.is_guarded or (path not in graph.importers and facts.acts))


def main_guard(file: ParsedFile) -> ast.If | None:
    """`if __name__ == '__main__':` at the top level of a file."""
    return next((part for part in file.tree.body if isinstance(part, ast.If) and is_main_guard(part)), None)


def all_calls(file: ParsedFile) -> Sequence[ast.Call]:
    """The calls in a file."""
    return file.nodes(ast.Call)


def calls_in(*code: ast.AST) -> Iterator[ast.Call]:
    """The calls in some pieces of code, these among them."""
    return (node for node in walk(*code) if isinstance(node, ast.Call))


RETURNING_SELF = frozenset(MEMBERS["returning_self"])  # methods of modules


def dataflow_of(program: TrainingProgram, entries: Sequence[str], words: bytes) -> Dataflow:
    """The values that flow through the entry files and those that they import with a match of `words` in them; files
    that cannot be parsed are left out.

    A program that imports modules by names it makes up at run time may load any file that is not a script.
    """
    runs = [_files_run(program, entry) for entry in entries if entry in program.sources]
    word = re.compile(words)
    paths = sorted(path for path in set().union(*runs) if path in entries or word.search(program.sources[path]))
    files = {path: file for path in paths if (file := program.file(path)) is not None}
    return dataflow_in(program, files, runs)


def dataflow_in(
    program: TrainingProgram, files: Mapping[str, ParsedFile], runs: Sequence[frozenset[str]] = ()
) -> Dataflow:
    """The values that flow through some files."""
    return Dataflow(program, files, values_of(program.project), runs, RETURNING_SELF)


def _files_run(program: TrainingProgram, entry: str) -> frozenset[str]:
    graph = ImportGraph.of(program)
    paths = graph.loaded_by(entry)
    if not any(b"import_module(" in program.sources[path] for path in paths):
        return paths
    return paths | {path for path in program.sources if not _is_started(program, graph, path)}
