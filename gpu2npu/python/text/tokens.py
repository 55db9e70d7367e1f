"""The bounds of names that a node of a syntax tree holds as text: attributes, definitions, keywords, imports."""

from __future__ import annotations

import ast
import re

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition, import_module

Bounds = tuple[int, int]

_DOTTED = re.compile(r"\w+(?:\s*\.\s*\w+)*")
_DEFINITION = re.compile(r"(?:async\s+def|def|class)(?:\s|\\\r?\n)+(?P<name>\w+)")
_FROM = re.compile(r"from(?:\s|\\\r?\n)*(?P<module>[.\s]*\w*(?:\s*\.\s*\w+)*?)(?=(?:\s|\\\r?\n)+import\b)")


def attribute_name(file: PythonFile, node: ast.Attribute) -> Bounds:
    """The bounds of `c` in `a.b.c`."""
    end = file.bounds(node)[1]
    start = end
    while file.text[start - 1].isalnum() or file.text[start - 1] == "_":
        start -= 1
    return start, end


def name_bounds(file: PythonFile, node: ast.expr | Definition) -> Bounds:
    """The bounds of the last name of an expression or of a definition's name."""
    if isinstance(node, DEFINITIONS):
        start = file.bounds(node)[0]
        found = _DEFINITION.match(file.text, start)
        return found.span("name") if found is not None else (start, start)
    return attribute_name(file, node) if isinstance(node, ast.Attribute) else file.bounds(node)


def keyword_name(file: PythonFile, node: ast.keyword) -> Bounds:
    """The bounds of `k` in `f(k=v)`."""
    start = file.bounds(node)[0]
    return start, start + len(node.arg or "")


def alias_name(file: PythonFile, alias: ast.alias) -> Bounds:
    """The bounds of `a.b` in `import a.b as c`."""
    start, end = file.bounds(alias)
    found = _DOTTED.match(file.text, start, end)
    return found.span() if found is not None else (start, end)


def from_module(file: PythonFile, node: ast.ImportFrom) -> Bounds:
    """The bounds of the module of a from-import, with its leading dots."""
    start = file.bounds(node)[0]
    found = _FROM.match(file.text, start)
    return found.span("module") if found is not None and import_module(node) else (start, start)


def statement_end(text: str, end: int) -> int:
    """The offset behind a statement that ends at `end` and its line: blanks, `;`, a comment, the line's end."""
    found = _REST.match(text, end)
    return found.end() if found is not None else end


_REST = re.compile(r"[ \t\f;]*(?:#[^\r\n]*)?(?:\r\n|\r|\n|\Z)")
