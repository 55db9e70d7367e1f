"""The part of a project that a file belongs to, by its path; and imports that only some calls reach."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping

from gpu2npu.python.syntax import DEFINITIONS, FUNCTIONS, IMPORTS
from gpu2npu.records import NativeKind, NativePlace
from gpu2npu.report.check_result import Part

_FOLDERS = (
    (Part.CI, re.compile(r"\.(github|gitlab|circleci|buildkite|ci|azure.*)|ci|jenkins")),
    (Part.TESTS, re.compile(r"(\w+_)?tests?(_utils|_data|_scripts)?|testing")),
    (Part.EXAMPLES, re.compile(r"(\w+_)?(examples?|demos?|tutorials?|samples?|benchmarks?)")),
    (Part.DOCS, re.compile(r"docs?|documentation")),
    (Part.NOTEBOOKS, re.compile(r"notebooks?")),
)
_FILES = (
    (Part.NOTEBOOKS, re.compile(r".+\.ipynb")),
    (Part.TESTS, re.compile(r"test_\w+\.py|\w+_test\.py|conftest\.py|testing(_utils)?\.py")),
    (
        Part.CI,
        re.compile(r"\.gitlab-ci.*|\.travis\.yml|\.?appveyor\.yml|azure-pipelines.*|jenkinsfile|tox\.ini|noxfile\.py"),
    ),
)


def parts_of(paths: Iterable[str]) -> Callable[[str], Part]:
    """The part of each file of a project. One that has no other Python code than tests, examples and the like is a
    collection of programs: none of them is apart."""
    is_collection = not any(path.endswith(".py") and _part(path) is Part.PROGRAM for path in paths)
    return lambda path: Part.PROGRAM if is_collection and _part(path) is not Part.CI else _part(path)


def _part(path: str) -> Part:
    *folders, name = path.lower().split("/")
    named = ((part, pattern, name) for part, pattern in _FILES)
    placed = ((part, pattern, folder) for folder in folders for part, pattern in _FOLDERS)
    return next((part for part, pattern, text in (*named, *placed) if pattern.fullmatch(text)), Part.PROGRAM)


def kernels_apart(places: Iterable[NativePlace], files: Mapping[str, bytes]) -> int:
    """The CUDA kernels that are not in the program itself: all of them where nothing but some call builds them."""
    listed = tuple(places)
    part = parts_of(files)
    builds = [place for place in listed if place.kind is NativeKind.BUILD and part(place.path) is Part.PROGRAM]
    on_demand = bool(builds) and all(is_called_later(files[place.path], place.line) for place in builds)
    kernels = [place for place in listed if place.kind is NativeKind.KERNEL]
    return sum(on_demand or part(place.path) is not Part.PROGRAM for place in kernels)


def is_deferred(source: bytes, line: int) -> bool:
    """Return whether a line of a Python file is an import that is done only when some function is called."""
    outer = _called_later(source, line)
    return outer is not None and any(isinstance(node, IMPORTS) and _holds(node, line) for node in ast.walk(outer))


def is_called_later(source: bytes, line: int) -> bool:
    """Return whether a line of a Python file is in a function that only a later call runs.

    No code that runs with the file, or is reached from there by names, calls that function.
    """
    return _called_later(source, line) is not None


def _called_later(source: bytes, line: int) -> ast.AST | None:
    """The outermost definition around such a line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    outer: ast.AST | None = next((node for node in tree.body if _holds(node, line)), None)
    while isinstance(outer, (ast.If, ast.Try)):
        outer = next((node for node in ast.iter_child_nodes(outer) if _holds(node, line)), None)
    if not isinstance(outer, DEFINITIONS) or outer.name in _run_names(tree):
        return None
    functions = (node for node in ast.walk(outer) if isinstance(node, FUNCTIONS))
    return outer if any(_holds(node, line) for node in functions) else None


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)


def _run_names(tree: ast.Module) -> set[str]:
    """The names in the code that runs with a file, and in the definitions of the file that these name, and so on."""
    definitions = {node.name: node for node in tree.body if isinstance(node, DEFINITIONS)}
    pending = [name for node in tree.body if not isinstance(node, DEFINITIONS) for name in _names(node)]
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += _names(definitions[name]) if name in definitions else ()
    return reached


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
