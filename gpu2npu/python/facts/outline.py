"""The outline of a file: what it imports and when, and the names in its code, from what the walk over it has kept."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from itertools import takewhile

import msgspec
from msgspec import Struct

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import (
    DEFINITIONS,
    FORS,
    FUNCTIONS,
    TRIES,
    WITHS,
    Definition,
    Import,
    blocks,
    goes_on_without_import,
    import_module,
    imported_names,
    local_name,
)

_VALUES = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)


class ImportOutline(Struct, frozen=True, array_like=True):
    """An import statement: the modules that it may mean, and the local name of each name that it brings in. `within`
    is the definition that it waits for a call of, "" where it is done at once; `is_choice` where the importer goes on
    without it, or a condition in that definition decides."""

    modules: tuple[str, ...]
    names: dict[str, str]
    within: str
    is_choice: bool


class Outline(Struct, frozen=True, array_like=True):
    """A file by its text alone: its imports, the names that code which runs with it reads, and those that each of its
    definitions at the top reads; and whether it does more at its top than to define, to import and to set values.
    Modules of a package register and set up what they offer by loops and methods: of them only calls of functions for
    effect count. As MessagePack it takes a fifth of the file's size."""

    imports: tuple[ImportOutline, ...] = ()
    run: frozenset[str] = frozenset()
    definitions: dict[str, frozenset[str]] = {}
    acts: bool = False
    acts_in_package: bool = False


encoded_outline = msgspec.msgpack.Encoder().encode
decoded_outline = msgspec.msgpack.Decoder(Outline).decode


def outline_of(file: PythonFile) -> Outline:
    """The outline of a parsed file."""
    body = file.tree.body
    read = _names_by_statement(file)
    definitions = {node.name: read[node] for node in body if isinstance(node, DEFINITIONS)}
    run: set[str] = set()
    pending = [name for node in body if not isinstance(node, DEFINITIONS) for name in read[node]]
    while pending:
        name = pending.pop()
        if name not in run:
            run.add(name)
            pending += definitions.get(name, ())
    decorators = [each for node in body if isinstance(node, DEFINITIONS) for each in node.decorator_list]
    run.update(each for node in decorators for part in ast.walk(node) if (each := _name(part)))
    return Outline(
        tuple(_imported(file, node, run) for node, _ in file.imports),
        frozenset(run),
        {name: frozenset(names) for name, names in definitions.items()},
        _acts(body),
        _acts_in_package(body),
    )


def called_later(file: PythonFile, node: ast.AST, run: Iterable[str]) -> Definition | None:
    """The outermost definition around a node that only a later call runs, when `run` are the names in code that runs
    with the file; None for others."""
    above = [each for each in (*reversed([*file.above(node)]), node) if isinstance(each, ast.stmt)]
    outer = next((each for each in above if not isinstance(each, (ast.If, ast.Try))), None)
    if not isinstance(outer, DEFINITIONS) or outer.name in run:
        return None
    return outer if any(isinstance(each, FUNCTIONS) for each in above) else None


def _names_by_statement(file: PythonFile) -> dict[ast.stmt, set[str]]:
    """The names and members that each statement at the top of a file reads. Uses are in the order of the source; one
    loop over all, as these are many."""
    body = file.tree.body
    found: dict[ast.stmt, set[str]] = {node: set() for node in body}
    ends = iter([*map(_start, body[1:]), (math.inf, 0)])
    end: tuple[float, int] = (0, 0)
    names, at = set[str](), iter(body)
    for node, _ in file.uses:
        while (node.lineno, node.col_offset) >= end:  # type: ignore[attr-defined]
            names, end = found[next(at)], next(ends)
        while node.__class__ is ast.Attribute:
            names.add(node.attr)
            node = node.value
        if node.__class__ is ast.Name:
            names.add(node.id)
    return found


def _start(node: ast.stmt) -> tuple[int, int]:
    first = node.decorator_list[0] if isinstance(node, DEFINITIONS) and node.decorator_list else node
    return first.lineno, first.col_offset


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _imported(file: PythonFile, node: Import, run: set[str]) -> ImportOutline:
    modules = [name for _, name in imported_names(node)]
    modules += [import_module(node)] if isinstance(node, ast.ImportFrom) else []
    names = {alias.name: local_name(alias, node) for alias in node.names} if isinstance(node, ast.ImportFrom) else {}
    if not node.col_offset:
        return ImportOutline(tuple(modules), names, "", is_choice=False)
    outer = called_later(file, node, run)
    return ImportOutline(tuple(modules), names, outer.name if outer else "", _is_choice(file, node, outer))


def _is_choice(file: PythonFile, node: ast.AST, outer: Definition | None) -> bool:
    """Return whether a file goes on where an import in it fails, or a condition in a definition decides."""
    within = takewhile(lambda each: each is not outer, file.above(node)) if outer is not None else ()
    return is_caught(file, node) or any(isinstance(each, (ast.If, ast.Match)) for each in within)


def is_caught(file: PythonFile, node: ast.AST) -> bool:
    """Return whether code goes on where an import fails: `try: import fastlib` with `except ImportError: pass`."""
    return any(
        isinstance(above, TRIES) and below in above.body and any(map(goes_on_without_import, above.handlers))
        for above, below in file.steps(node)
    )


def _acts_in_package(body: Iterable[ast.stmt]) -> bool:
    calls = (node.value for node in _top(body) if isinstance(node, ast.Expr))
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Name) for call in calls)


def _acts(body: Iterable[ast.stmt]) -> bool:
    return any(
        isinstance(node, (*FORS, *WITHS, ast.While))
        or (isinstance(node, _VALUES) and any(isinstance(each, ast.Call) for each in ast.walk(node)))
        for node in _top(body)
    )


def _top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top of a module, also those below conditions; what handles an error is left out."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, *TRIES)):
            for block in blocks(node):
                yield from _top(block)
