"""Statements in their blocks, and the lines that they take: where new statements can go."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.python.text.offsets import indentation, line_before
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, blocks


def is_elif(file: PythonFile, node: ast.AST) -> bool:
    """Return whether a node is an `elif`, which is an `if` alone in the `else` of another."""
    return isinstance(node, ast.If) and file.text.startswith("elif", file.bounds(node)[0])


def same_line(file: PythonFile, statement: ast.stmt) -> list[ast.stmt]:
    """The statements that share a line with one, itself among them: `a = 1; b = 2`."""
    block = file.block(statement)
    index = first = next(index for index, each in enumerate(block) if each is statement)
    while first and block[first - 1].end_lineno == block[first].lineno:
        first -= 1
    while index + 1 < len(block) and block[index].end_lineno == block[index + 1].lineno:
        index += 1
    return block[first : index + 1]


def line_statement(file: PythonFile, node: ast.AST) -> ast.stmt | None:
    """The statement that a node is part of, or the first on its line, if it begins a line; of an `elif` the `if` above
    it. None within a line such as `if x: y()`."""
    statement = file.statement(node)
    while is_elif(file, statement):
        statement = file.statement(file.parents[statement])
    first = same_line(file, statement)[0]
    return first if begins_line(file, first) else None


def begins_line(file: PythonFile, statement: ast.stmt) -> bool:
    """Return whether only white space is before a statement on its line."""
    return not line_before(file.text, file.bounds(statement)[0]).strip()


def start_of(file: PythonFile, statement: ast.AST) -> int:
    """The offset of a statement's first character, its decorators counted to it."""
    decorators = statement.decorator_list if isinstance(statement, DEFINITIONS) else []
    if not decorators:
        return file.bounds(statement)[0]
    return file.text.rindex("@", 0, file.bounds(decorators[0])[0])


def line_start(file: PythonFile, offset: int) -> int:
    """The offset of the first character of the line that an offset is in."""
    return offset - len(line_before(file.text, offset))


def next_line(file: PythonFile, offset: int) -> int:
    """The offset of the first line that begins at an offset or behind it; the length of the text if there is none."""
    line = file.lines.span(offset, offset).start_line
    if file.lines.starts[line - 1] == offset:
        return offset
    return file.lines.starts[line] if line < len(file.lines.starts) else len(file.text)


def line_below(file: PythonFile, statement: ast.stmt) -> int:
    """The offset of the first line below a statement, and below the comments that end its last block."""
    end = next_line(file, file.bounds(same_line(file, statement)[-1])[1])
    inner = _last_block(statement)
    if inner is None or not begins_line(file, inner[0]):
        return end
    depth = len(indentation(file.text, file.bounds(inner[0])[0]))
    position = end
    while position < len(file.text):
        below = next_line(file, position + 1)
        line = file.text[position:below]
        stripped = line.lstrip(" \t\f")
        if stripped.startswith("#") and len(line) - len(stripped) >= depth:
            end = below
        elif stripped.strip():
            break
        position = below
    return end


def _last_block(statement: ast.AST) -> list[ast.stmt] | None:
    """The last block of a compound statement."""
    inner = list(blocks(statement))
    handlers = getattr(statement, "handlers", None) or getattr(statement, "cases", None)
    if handlers and len(inner) < 2:
        inner = list(blocks(handlers[-1]))
    return inner[-1] if inner else None


def lines_of(file: PythonFile, statements: Sequence[ast.stmt]) -> tuple[int, int]:
    """The offsets of the first of the lines of some statements, and of the one below the last; those of the statements
    themselves where others share these lines."""
    first, last = statements[0], statements[-1]
    start, end = start_of(file, first), file.bounds(last)[1]
    before, after = same_line(file, first)[0], same_line(file, last)[-1]
    return (
        line_start(file, start) if before is first else start,
        line_below(file, last) if after is last else end,
    )


def indent_step(file: PythonFile) -> str:
    """The white space by which the first block of a file is indented; four spaces if there is none."""
    for node in walk(file.tree):
        if not isinstance(node, ast.stmt):
            continue
        for block in blocks(node):
            if begins_line(file, block[0]):
                inner, outer = (indentation(file.text, start_of(file, each)) for each in (block[0], node))
                if inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
    return "    "
