"""Statements that rules add beside the statement in which they match."""

from __future__ import annotations

import ast

from gpu2npu.engine.code_matching import Matched
from gpu2npu.python.text.blocks import lines_of
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
    """The edit that adds a statement beside another; an empty one where it is there already, None where there is no
    place."""
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
        whole = lines_of(file, (statement,))
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
