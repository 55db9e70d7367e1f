"""Code that does not run with its file: in functions that nothing calls which runs with it, as far as names say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from gpu2npu.python.text.source import SourceError, read_source
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, FUNCTIONS, IMPORTS, local_name
from gpu2npu.python.tree.syntax_tree import TreeError, parse


def is_deferred(source: bytes, line: int) -> bool:
    """Return whether a line of a Python file is an import that is done only when some function is called.

    Lines that use what such an import brought into the same function count too.
    """
    outer = _called_later(source, line)
    if outer is None:
        return False
    if any(isinstance(node, IMPORTS) and _holds(node, line) for node in walk(outer)):
        return True
    around = (node for node in walk(outer) if isinstance(node, FUNCTIONS) and _holds(node, line))
    imports = [node for function in around for node in walk(function) if isinstance(node, IMPORTS)]
    names = {local_name(alias, node) for node in imports for alias in node.names}
    return any(isinstance(node, ast.Name) and node.lineno == line and node.id in names for node in walk(outer))


def is_called_later(source: bytes, line: int) -> bool:
    """Return whether a line of a Python file is in a function that only a later call runs.

    No code that runs with the file, or is reached from there by names, calls that function.
    """
    return _called_later(source, line) is not None


def _called_later(source: bytes, line: int) -> ast.AST | None:
    """The outermost definition around such a line."""
    tree = _tree(source)
    outer: ast.AST | None = next((node for node in tree.body if _holds(node, line)), None)
    while isinstance(outer, (ast.If, ast.Try)):
        outer = next((node for node in ast.iter_child_nodes(outer) if _holds(node, line)), None)
    if not isinstance(outer, DEFINITIONS) or outer.name in _run_names(source):
        return None
    functions = (node for node in walk(outer) if isinstance(node, FUNCTIONS))
    return outer if any(_holds(node, line) for node in functions) else None


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)


@lru_cache(maxsize=1)  # the lines of a file are asked about one after the other
def _tree(source: bytes) -> ast.Module:
    """The tree of a file; an empty one where it cannot be parsed."""
    try:
        return parse(read_source(source, "").text)
    except (SourceError, TreeError):
        return ast.Module([], [])


@lru_cache(maxsize=1)
def _run_names(source: bytes) -> frozenset[str]:
    """The names in the code that runs with a file, and in the definitions of the file that these name, and so on."""
    tree = _tree(source)
    definitions = {node.name: node for node in tree.body if isinstance(node, DEFINITIONS)}
    pending = [name for node in tree.body if not isinstance(node, DEFINITIONS) for name in _names(node)]
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += _names(definitions[name]) if name in definitions else ()
    return frozenset(reached)


def _names(node: ast.AST) -> Iterator[str]:
    for each in walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
