"""Statements that rules add beside the statement in which they match, and statements that are taken out."""

from __future__ import annotations

import ast
from collections.abc import Set

from gpu2npu.engine.code_matching import Matched
from gpu2npu.python.text import blocks
from gpu2npu.python.text.templates import code as new_code
from gpu2npu.python.text.templates import followed, line_below, lines_above
from gpu2npu.python.text.tokens import statement_end
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import FUNCTIONS, string_value
from gpu2npu.records import Edit, Operation
from gpu2npu.rulebook.rule import Addition, Rule


def added(
    file: PythonFile, statement: ast.stmt, rule: Rule, add: Addition, code: str, needs: tuple[str, ...]
) -> Edit | None:
    """The edit that adds a statement beside another; empty where it is there, None where there is no place."""
    start, end = file.bounds(statement)
    line_end = statement_end(file.text, end)
    indentation = file.indentation(start)
    block = file.block(statement)
    index = block.index(statement)
    if file.line_before(start) != indentation:
        return None
    if add.place == "around" and (hasattr(statement, "body") or _is_within(file, statement, code)):
        return Edit((start, start), "", rule.id, rule.why) if not hasattr(statement, "body") else None
    if add.place == "around" and line_end == end and index + 1 < len(block):  # a(); b(), which would be within as well
        return None
    if add.place == "after":
        if hasattr(statement, "body"):
            return None
        start = line_end
        text = line_below(file, start, indentation, new_code("{line}", line=code))
    elif add.place != "around":
        text = lines_above(file, start, [new_code("{line}", line=code)])
    else:
        whole = blocks.lines_of(file, (statement,))
        text = followed(new_code("with {context}:", context=code), whole)
        return Edit(whole, text, rule.id, rule.why, needs=needs, is_block=True)
    neighbours = block[max(index - 1, 0) : index + 2]
    known = any(file.code(each) == code for each in neighbours)
    return Edit((start, start), "" if known else text, rule.id, rule.why, needs=needs, operation=Operation.INSERT)


def anchor_of(file: PythonFile, matched: Matched, place: str) -> ast.stmt:
    """The statement beside which one is added: the one with the match, or the first of the function around it."""
    statement = file.statement(matched.node)
    function = next((above for above in file.above(statement) if isinstance(above, FUNCTIONS)), None)
    if place != "function" or function is None:
        return statement
    first, *others = function.body
    is_docstring = isinstance(first, ast.Expr) and string_value(first.value) is not None
    return others[0] if is_docstring and others else first


def _is_within(file: PythonFile, statement: ast.stmt, code: str) -> bool:
    above = file.parents.get(statement)
    return isinstance(above, ast.With) and any(file.code(item.context_expr) == code for item in above.items)


def removal(file: PythonFile, node: ast.stmt, rule: str, message: str) -> Edit:
    """The edit that takes a statement out with its line; `pass` takes its place where the block would be empty."""
    place = file.bounds(node)
    if not _has_line(file, node):
        return Edit(place, new_code("pass"), rule, message)
    end = len(file.text[: statement_end(file.text, place[1])].rstrip())  # a comment goes with it
    return Edit((place[0], end), "", rule, message, operation=Operation.DELETE)


def taken_out(file: PythonFile, node: ast.expr, others: Set[ast.expr], rule: str, message: str) -> list[Edit] | None:
    """The edits that take out an expression which is a statement, or which a `with` enters, where the `others` go, too;
    none where one of these takes it along, None where its value is used, or a comment would be lost."""
    parent = file.parents[node]
    if isinstance(parent, ast.Expr):
        return [removal(file, parent, rule, message)]
    if not isinstance(parent, ast.withitem) or parent.optional_vars is not None:
        return None
    statement = file.parents[parent]
    assert isinstance(statement, (ast.With, ast.AsyncWith))
    gone = [item.optional_vars is None and item.context_expr in {node, *others} for item in statement.items]
    if all(gone):
        edit = _unwrapped(file, statement, rule, message)
        return None if edit is None else [edit] if parent is statement.items[0] else []
    return [Edit(file.bounds(node), "", rule, message, operation=Operation.DELETE)]


def _unwrapped(file: PythonFile, statement: ast.With | ast.AsyncWith, rule: str, message: str) -> Edit | None:
    """The edit that takes a `with` from around its block; None for a comment at its head, or a string that follows."""
    start, body = file.bounds(statement)[0], file.bounds(statement.body[0])[0]
    head = start, file.text.index(":", file.bounds(statement.items[-1].context_expr)[1]) + 1
    if "#" in file.text[start : min(blocks.next_line(file, head[1]), body)] or _becomes_docstring(file, statement):
        return None
    end = blocks.line_below(file, statement)
    inner = max(blocks.line_start(file, body), head[1]), end
    return Edit((start, end), (inner,), rule, message, shown=head, operation=Operation.DELETE, is_block=True)


def _becomes_docstring(file: PythonFile, statement: ast.With | ast.AsyncWith) -> bool:
    """Return whether a string that is the first in a block would be the first of a function, class or module."""
    first = statement.body[0]
    if not isinstance(first, ast.Expr) or string_value(first.value) is None:
        return False
    node: ast.stmt = statement
    while file.block(node)[0] is node:
        above = file.parents[node]
        if isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            return True
        if not isinstance(above, (ast.With, ast.AsyncWith)):
            return False
        node = above
    return False


def _has_line(file: PythonFile, node: ast.stmt) -> bool:
    """Return whether a statement shares no line, and is not the only one of its block."""
    block, (start, end) = file.block(node), file.bounds(node)
    if len(block) == 1 or file.line_before(start) != file.indentation(start):
        return False
    return node is block[-1] or statement_end(file.text, end) > end  # not import a; import b
