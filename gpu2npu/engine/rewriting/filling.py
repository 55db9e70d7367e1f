"""Judges whether new code means what the template of a rule does: what runs, parentheses, the quotes of f-strings."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import combinations
from operator import itemgetter
from typing import NamedTuple

from gpu2npu.python.text.literals import LiteralError, literals
from gpu2npu.python.text.templates import ATOMS, changed, parenthesized, pieces_of
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import has_effects
from gpu2npu.python.tree.syntax_tree import parse_expression
from gpu2npu.records import Text
from gpu2npu.rulebook.template import parse_template

# What holds a whole expression, so that no operator beside it can take a part of it.
_LOOSE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return, ast.keyword)
# What runs other code, and what lets other code assign names that are read here.
_RUNS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
_OUTER = (ast.Global, ast.Nonlocal)


class Misfit(NamedTuple):
    """The reason why new code does not fit."""

    reason: str


def runs_in_order(file: PythonFile, given: Sequence[ast.expr], code: Text) -> bool:
    """Return whether new code runs what does something, and reads what that may change, in the order of the old: not so
    for `f(b=next(i), a=next(i))` that becomes `g(next(i), next(i))`."""
    starts = [(file.bounds(each)[0], each) for each in given]
    placed = [
        each
        for piece in pieces_of(code)
        if not isinstance(piece, str)
        for each in sorted(starts, key=itemgetter(0))
        if piece[0] <= each[0] < piece[1]
    ]
    return not any(
        second < first and (_may_change(file, later, sooner) or _may_change(file, sooner, later))
        for (first, sooner), (second, later) in combinations(placed, 2)
    )


def _may_change(file: PythonFile, node: ast.expr, read: ast.expr) -> bool:
    """Return whether evaluating an expression may change what another gives, or both do something."""
    inner, other = list(ast.walk(node)), list(ast.walk(read))
    assigned = {each.target.id for each in inner if isinstance(each, ast.NamedExpr)}
    if any(isinstance(each, _RUNS) for each in inner):
        if has_effects(read) or any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in other):
            return True
        assigned |= {name for each in ast.walk(file.tree) if isinstance(each, _OUTER) for name in each.names}
    return any(isinstance(each, ast.Name) and each.id in assigned for each in other)


def is_loose(file: PythonFile, node: ast.expr) -> bool:
    """Return whether an expression is where any other may be without parentheses around it."""
    parent = file.parents[node]
    return isinstance(parent, _LOOSE) or (isinstance(parent, ast.Call) and parent.func is not node)


@lru_cache
def is_operand_template(template: str) -> bool:
    """Return whether what the template gives is one operand, whatever it is filled with."""
    text = "".join(piece.text if piece.text is not None else "x" for piece in parse_template(template))
    return isinstance(parse_expression(text), ATOMS)


def in_f_strings(file: PythonFile, node: ast.expr, code: Text) -> Text | None:
    """The code of a template as the f-strings that `node` is in can hold it: before Python 3.12 without their own
    quotes and without backslashes. None where that needs more than the other quotes."""
    quotes = _quotes_above(file, node)
    if not quotes:
        return code
    first = pieces_of(code)[0]
    if isinstance(first, str) and first.startswith("{"):  # two braces are one of the text
        code = parenthesized(code)
    fitting = changed(code, partial(_requoted, quotes=quotes))
    texts = [each for each in pieces_of(fitting) if isinstance(each, str)]
    return None if any(mark in each for each in texts for mark in (*quotes, "\\", "\n")) else fitting


def _requoted(piece: str, quotes: Sequence[str]) -> str:
    """Code with the other kind of quotes, where it has one kind, which is that of some f-strings."""
    kinds = {quote for quote in "\"'" if quote in piece}
    if len(kinds) != 1 or not any(quote in piece for quote in quotes):
        return piece
    other = "'" if kinds == {'"'} else '"'
    return piece.translate({ord('"'): other, ord("'"): other})


def _quotes_above(file: PythonFile, node: ast.expr) -> list[str]:
    """The quotes of the f-strings that a node is in."""
    start = file.bounds(node)[0]
    quotes = []
    for above in file.above(node):
        if isinstance(above, ast.JoinedStr):
            try:
                found = literals(file.text, *file.bounds(above))
            except LiteralError:
                continue
            quotes += [literal.quote for literal in found if literal.start <= start < literal.end]
    return quotes
