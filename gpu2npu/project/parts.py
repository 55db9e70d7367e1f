"""Which part of a project a file belongs to, by its path; and which imports only some calls reach."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator

from gpu2npu.python.syntax import DEFINITIONS, FUNCTIONS, IMPORTS
from gpu2npu.records import Span
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


def is_deferred(source: bytes, span: Span) -> bool:
    """Whether a place of a Python file is an import that is done only when some function is called, and no code that
    runs with the file, or is reached from there by names, calls that function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    outer: ast.AST | None = next((node for node in tree.body if _holds(node, span)), None)
    while isinstance(outer, (ast.If, ast.Try)):
        outer = next((node for node in ast.iter_child_nodes(outer) if _holds(node, span)), None)
    if not isinstance(outer, DEFINITIONS) or outer.name in _run_names(tree):
        return False
    inside = [node for node in ast.walk(outer) if isinstance(node, (*IMPORTS, *FUNCTIONS)) and _holds(node, span)]
    return any(isinstance(node, IMPORTS) for node in inside) and any(isinstance(node, FUNCTIONS) for node in inside)


def _holds(node: ast.AST, span: Span) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
    return first <= span.start_line <= last


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
