"""The code that also runs where no program has made a process group: a library's, for whoever imports it."""

from __future__ import annotations

import posixpath
import re

from gpu2npu.codemods.entry import find_entries
from gpu2npu.codemods.program import ParsedFile, TrainingProgram
from gpu2npu.python.flow.reachability import TEST_FILE
from gpu2npu.python.project.imports import ImportGraph

_TEST_FILE = re.compile(TEST_FILE)
_TEST = re.compile(rb"^[ \t]*(async[ \t]+)?def[ \t]+test_", re.MULTILINE)


def runs_without_group(program: TrainingProgram, file: ParsedFile, offset: int) -> bool:
    """Return whether programs that have no process group may run the code at an offset: that of a function or class
    which tests load, or other projects, or which no program of the project comes to."""
    if not any(start < offset < end for start, end in program.of_file(_definitions, file)):
        return False
    if file.path in program.once(_tested, lambda: _tested(program)) or _is_offered(program, file.path):
        return True
    entries = program.once((find_entries, file.path), lambda: find_entries(program, [file.path]))
    return not any(entry.runs_at(file, offset) for entry in entries)


def _tested(program: TrainingProgram) -> frozenset[str]:
    """The test files, and the files that they load."""
    graph = ImportGraph.of(program)
    tests = [path for path, source in program.sources.items() if _has_tests(path, source)]
    return frozenset().union(*(graph.loaded_by(path) for path in tests))


def _has_tests(path: str, source: bytes) -> bool:
    return is_test_file(path) and _TEST.search(source) is not None


def is_test_file(path: str) -> bool:
    return _TEST_FILE.fullmatch(posixpath.basename(path)) is not None


def _is_offered(program: TrainingProgram, path: str) -> bool:
    """Return whether a file is one of those that other projects import once the project is installed. A script in a
    package that nothing imports is a program of its own."""
    if not any(path.startswith(f"{package}/") for package in program.installed.packages):
        return False
    is_script = b"__main__" in program.sources[path] and path not in ImportGraph.of(program).importers
    return not is_script or path in program.installed.commands


def _definitions(file: ParsedFile) -> list[tuple[int, int]]:
    return [file.bounds(node) for node in file.definitions]


def in_group(dist: str) -> str:
    """The condition that there is a process group, with the file's name for torch.distributed."""
    return f"{dist}.is_initialized()"


def world_size(dist: str) -> str:
    """The number of processes, where there may be no process group."""
    return f"({dist}.get_world_size() if {in_group(dist)} else 1)"
