"""The code that also runs where no program has made a process group: what the project's tests call."""

from __future__ import annotations

import posixpath
import re

from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.project.program import ParsedFile, Program

# Where pytest looks for tests: https://docs.pytest.org/en/stable/explanation/goodpractices.html#test-discovery
_TEST_FILE = re.compile(r"test_\w+\.py|\w+_test\.py")
_TEST = re.compile(rb"^[ \t]*(async[ \t]+)?def[ \t]+test_", re.MULTILINE)


def runs_without_group(program: Program, file: ParsedFile, offset: int) -> bool:
    """Return whether code at an offset is in a function or class of a file that tests load. A test calls it with no
    process group, as whoever imports a library that has tests may."""
    if file.path not in program.once(_tested, lambda: _tested(program)):
        return False
    return any(start < offset < end for start, end in program.of_file(_definitions, file))


def _tested(program: Program) -> frozenset[str]:
    """The test files, and the files that they load."""
    graph = ImportGraph.of(program)
    tests = [path for path, source in program.sources.items() if _has_tests(path, source)]
    return frozenset().union(*(graph.loaded_by(path) for path in tests))


def _has_tests(path: str, source: bytes) -> bool:
    return _TEST_FILE.fullmatch(posixpath.basename(path)) is not None and _TEST.search(source) is not None


def _definitions(file: ParsedFile) -> list[tuple[int, int]]:
    return [file.bounds(node) for node in file.definitions]


def in_group(dist: str) -> str:
    """The condition that there is a process group, with the file's name for torch.distributed."""
    return f"{dist}.is_initialized()"


def world_size(dist: str) -> str:
    """The number of processes, where there may be no process group."""
    return f"({dist}.get_world_size() if {in_group(dist)} else 1)"
