"""Filling the templates of rules with the code of a call, so that the result means what the template says."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from operator import itemgetter

from gpu2npu.python.text.concrete import argument_bounds
from gpu2npu.python.text.literals import LiteralError, literals
from gpu2npu.python.text.templates import ATOMS, operand
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import arguments
from gpu2npu.python.tree.syntax_tree import parse_expression
from gpu2npu.records import Code
from gpu2npu.rulebook.template import Piece, parse_template

# What holds a whole expression, so that no operator beside it can take a part of it.
_LOOSE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return, ast.keyword)
# What may give something else, or do something more, the second time.
_EFFECTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
# What runs other code, and what lets other code assign names that are read here.
_RUNS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
_OUTER = (ast.Global, ast.Nonlocal)
_COMMA = re.compile(r"\s*,\s*")
_SUBSCRIPT = re.compile(r"[\w\])]\[$")  # not the bracket of a list

# What a placeholder stands for: an expression, or all arguments of a call.
Filling = ast.expr | list[ast.expr | ast.keyword]


def fill(file: PythonFile, pieces: Sequence[Piece], part: Callable[[Piece], Filling | None]) -> tuple[Code, ...] | None:
    """The code of a template whose placeholders stand for what `part` gives; None where it has nothing for one,
    code would be evaluated twice, or a slice would be outside of brackets."""
    code: list[Code] = []
    lone = False  # nothing was put before a comma
    for index, piece in enumerate(pieces):
        if piece.text is not None:
            code.append(_COMMA.sub("", piece.text, count=1) if lone and _COMMA.match(piece.text) else piece.text)
            lone = False
            continue
        found = part(piece)
        if found is None or (pieces.count(piece) > 1 and has_effects(found)):
            return None
        if isinstance(found, ast.expr):
            if _has_slice(found) and not _is_enclosed(pieces, index, found):
                return None
            code += _expression(file, pieces, index, found)
        elif found:
            code += _arguments(file, found)
        elif code and isinstance(code[-1], str) and code[-1].rstrip().endswith(","):
            code[-1] = code[-1].rstrip()[:-1]
        else:
            lone = True
    return tuple(code)


def _expression(file: PythonFile, pieces: Sequence[Piece], index: int, found: ast.expr) -> list[Code]:
    given = operand(file, found)
    is_number = isinstance(found, ast.Constant) and type(found.value) is int and given.bounds == file.bounds(found)
    if is_number and index + 1 < len(pieces) and (pieces[index + 1].text or "").lstrip().startswith("."):
        return ["(", given.bounds, ")"]  # 1.npu() is not code
    return [given.bounds] if given.is_whole or _is_enclosed(pieces, index, found) else ["(", given.bounds, ")"]


def _has_slice(found: ast.expr) -> bool:
    return any(isinstance(each, ast.Slice) for each in (found, *(found.elts if isinstance(found, ast.Tuple) else ())))


def _arguments(file: PythonFile, given: list[ast.expr | ast.keyword]) -> list[Code]:
    if len(given) == 1 and isinstance(given[0], ast.GeneratorExp):
        return [file.bounds(given[0])]
    call = file.parents[given[0]]
    assert isinstance(call, ast.Call)
    everything = arguments(call)
    bounds = argument_bounds(file, call) or [file.bounds(each) for each in everything]
    indexes = [everything.index(each) for each in given]
    code: list[Code] = []
    first = last = indexes[0]
    for index in [*indexes[1:], -1]:  # each run of neighbours as it is written
        if index != last + 1:
            code += [*([", "] if code else []), (bounds[first][0], bounds[last][1])]
            first = index
        last = index
    return code


def has_effects(found: Filling) -> bool:
    """Return whether evaluating the code twice may differ from evaluating it once: `next(batches)`."""
    nodes = [found] if isinstance(found, ast.expr) else found
    return any(isinstance(inner, _EFFECTS) for node in nodes for inner in ast.walk(node))


def runs_in_order(file: PythonFile, given: Sequence[ast.expr], code: Sequence[Code]) -> bool:
    """Return whether new code runs what does something, and reads what that may change, in the order of the old: not so
    for `f(b=next(i), a=next(i))` that becomes `g(next(i), next(i))`."""
    starts = [(file.bounds(each)[0], each) for each in given]
    placed = [
        each
        for piece in code
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


def _is_enclosed(pieces: Sequence[Piece], index: int, found: ast.expr) -> bool:
    """Return whether brackets or commas keep what is put here apart from its neighbours."""
    if isinstance(found, (ast.GeneratorExp, ast.NamedExpr)):
        return False
    before = (pieces[index - 1].text or "").rstrip() if index else ""
    after = (pieces[index + 1].text or "").lstrip() if index + 1 < len(pieces) else ""
    if isinstance(found, (ast.Tuple, ast.Slice)):  # as in x[1, 2:]
        placed = f"x{before}" if index > 1 else before  # behind another placeholder
        return _SUBSCRIPT.search(placed) is not None and after.startswith("]")
    return before.endswith(("(", "[", "{", ",", "=")) and after.startswith((")", "]", "}", ","))


def is_loose(file: PythonFile, node: ast.expr) -> bool:
    """Return whether an expression stands where any other may stand without parentheses around it."""
    parent = file.parents[node]
    return isinstance(parent, _LOOSE) or (isinstance(parent, ast.Call) and parent.func is not node)


@lru_cache
def is_operand_template(template: str) -> bool:
    """Return whether what the template gives is one operand, whatever it is filled with."""
    text = "".join(piece.text if piece.text is not None else "x" for piece in parse_template(template))
    return isinstance(parse_expression(text), ATOMS)


def in_f_strings(file: PythonFile, node: ast.expr, code: tuple[Code, ...]) -> tuple[Code, ...] | None:
    """The code of a template as the f-strings that `node` is in can hold it: before Python 3.12 without their own
    quotes and without backslashes. None where that needs more than the other quotes."""
    quotes = _quotes_above(file, node)
    if not quotes:
        return code
    if isinstance(code[0], str) and code[0].startswith("{"):  # two braces are one of the text
        code = ("(", *code, ")")
    fitting: list[Code] = []
    for piece in code:
        if isinstance(piece, str) and any(quote in piece for quote in quotes):
            kinds = {quote for quote in "\"'" if quote in piece}
            other = "'" if kinds == {'"'} else '"'
            piece = piece.translate({ord('"'): other, ord("'"): other})
            if len(kinds) > 1 or any(quote in piece for quote in quotes):
                return None
        if isinstance(piece, str) and ("\\" in piece or "\n" in piece):
            return None
        fitting.append(piece)
    return tuple(fitting)


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
