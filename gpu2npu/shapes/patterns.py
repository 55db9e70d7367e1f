"""Patterns over terms: `x * sigmoid(x)` is also what `s = torch.sigmoid(x); return s * x` computes.

A name stands for any value, the same wherever it is written. Products and sums match in any order and grouping, numbers
to some digits. What takes the place of the code is a call with the names as arguments.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import Struct

from gpu2npu.shapes.kind import Argument, ArgumentTemplate, FusedMatch
from gpu2npu.shapes.operations import binary, function
from gpu2npu.shapes.reading import TermReader
from gpu2npu.shapes.terms import Term, const, negated

# Up to how much numbers of a pattern and of code differ: libraries write 1.41421 and 0.79788.
_CLOSE = 1e-5
_LARGEST_POWER = 4
Bound = Mapping[str, Term]


class Pattern(Struct, frozen=True):
    """A term with variables, and the call that has their values as arguments."""

    root: Term
    function: str
    arguments: tuple[tuple[str, frozenset[str]], ...]

    @classmethod
    def of(cls, code: str, becomes: str) -> Pattern:
        """Read a pattern; in `becomes`, names are variables, and what else is written stays as it is."""
        call = ast.parse(becomes, mode="eval").body
        assert isinstance(call, ast.Call)
        given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        arguments = tuple(_argument(becomes, each) for each in given)
        return cls(_built(ast.parse(code, mode="eval").body), ast.unparse(call.func), arguments)


def _argument(becomes: str, node: ast.expr | ast.keyword) -> tuple[str, frozenset[str]]:
    """The template of an argument, whose fields are its names, and these."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    fields = {(each.col_offset, each.end_col_offset): f"{{{each.id}}}" for each in names}
    text, end = becomes, node.end_col_offset
    for (first, last), field in sorted(fields.items(), reverse=True):
        text = f"{text[:first]}{field}{text[last:]}"
    more = len(text) - len(becomes)
    return text[node.col_offset : (end or 0) + more], frozenset(each.id for each in names)


def _built(node: ast.expr) -> Term:
    """The term of an expression of a pattern, of which names are variables."""
    if isinstance(node, ast.Name):
        return const(math.pi) if node.id == "pi" else Term("variable", value=node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return const(node.value)
    if isinstance(node, ast.UnaryOp):
        return negated(_built(node.operand))
    if isinstance(node, ast.BinOp):
        found = binary(node.op, _built(node.left), _built(node.right))
        assert found is not None
        return found
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    *values, last = node.args
    if isinstance(last, ast.Constant) and isinstance(last.value, str):
        return Term(node.func.id, tuple(map(_built, values)), value=last.value)
    arguments = tuple(map(_built, node.args))
    return function(node.func.id, *arguments) if len(arguments) == 1 else Term(node.func.id, arguments)


def find_pattern(patterns: Sequence[Pattern], reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """The first of some patterns that an expression is."""
    root = reading.term(node)
    for pattern in patterns:
        for bound in _matched(pattern.root, root, {}):
            if any(each.op == "neg" and not each.spelled for each in bound.values()):
                continue  # x - y is no sum of two values that are written
            arguments = tuple(_filled(each, bound) for each in pattern.arguments)
            return FusedMatch(root, pattern.function, arguments)
    return None


def _filled(argument: tuple[str, frozenset[str]], bound: Bound) -> Argument:
    text, names = argument
    if not names:
        return text
    terms = {name: bound[name] for name in sorted(names)}
    return ArgumentTemplate(text, terms)


def _matched(pattern: Term, term: Term, bound: Bound) -> Iterator[Bound]:
    """The ways in which a term is of a pattern, as values of its variables."""
    if pattern.op == "variable":
        name = str(pattern.value)
        known = bound.get(name)
        if known is None:
            yield {**bound, name: term}
        elif known == term:
            yield {**bound, name: replace(known, spelled=(*known.spelled, *term.spelled))}
    elif pattern.number is not None:
        if term.number is not None and _is_close(pattern.number, term.number):
            yield bound
    elif pattern.op in _PRODUCTS:
        if term.op in _PRODUCTS:
            yield from _products(_Product.of(pattern), _Product.of(term), bound)
    elif pattern.op in _SUMS:
        if term.op in _SUMS:
            yield from _sums(pattern, term, bound)
    elif (pattern.op, pattern.value, len(pattern.args)) == (term.op, term.value, len(term.args)):
        yield from _each(pattern.args, term.args, bound)


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_CLOSE)


def _each(patterns: Sequence[Term], terms: Sequence[Term], bound: Bound) -> Iterator[Bound]:
    """The ways in which terms are of patterns, in their order."""
    if not patterns:
        yield bound
        return
    for first in _matched(patterns[0], terms[0], bound):
        yield from _each(patterns[1:], terms[1:], first)


_PRODUCTS = frozenset({"mul", "div", "neg", "pow"})
_SUMS = frozenset({"add", "sub"})


class _Product(Struct, frozen=True):
    """A product: its number, its other factors, powers written out, and what it is divided by."""

    number: float
    factors: tuple[Term, ...]
    divisors: tuple[Term, ...]

    @classmethod
    def of(cls, term: Term) -> _Product:
        """The product that a term is."""
        if term.number is not None:
            return cls(term.number, (), ())
        if term.op == "neg":
            inner = cls.of(term.args[0])
            return cls(-inner.number, inner.factors, inner.divisors)
        if term.op == "mul":
            left, right = map(cls.of, term.args)
            number = left.number * right.number
            return cls(number, (*left.factors, *right.factors), (*left.divisors, *right.divisors))
        if term.op == "div":
            above, below = map(cls.of, term.args)
            if below.number:
                number = above.number / below.number
                return cls(number, (*above.factors, *below.divisors), (*above.divisors, *below.factors))
        if term.op == "pow":
            power = term.args[1].number or 0.0
            if power.is_integer() and 1 < power <= _LARGEST_POWER:
                return cls(1.0, (term.args[0],) * int(power), ())
        return cls(1.0, (term,), ())


def _products(pattern: _Product, term: _Product, bound: Bound) -> Iterator[Bound]:
    if _is_close(pattern.number, term.number):
        for above in _any_order(pattern.factors, term.factors, bound):
            yield from _any_order(pattern.divisors, term.divisors, above)


def _sums(pattern: Term, term: Term, bound: Bound) -> Iterator[Bound]:
    wanted, wanted_number = _summands(pattern)
    found, number = _summands(term)
    if _is_close(wanted_number, number):
        yield from _any_order(wanted, found, bound)


def _summands(term: Term) -> tuple[tuple[Term, ...], float]:
    """The terms of a sum without its numbers, and the sum of these."""
    if term.number is not None:
        return (), term.number
    if term.op not in _SUMS:
        return (term,), 0.0
    (left, first), (right, second) = map(_summands, term.args)
    return ((*left, *right), first + second) if term.op == "add" else ((*left, *map(negated, right)), first - second)


def _any_order(patterns: Sequence[Term], terms: Sequence[Term], bound: Bound) -> Iterator[Bound]:
    """The ways in which terms are of patterns, each of one; a variable with a product for its value takes the factors
    of that. Variables that have no value come last."""
    if not patterns or len(terms) < len(patterns):
        if not patterns and not terms:
            yield bound
        return
    pattern = min(patterns, key=partial(_rank, bound))
    others = _without(patterns, pattern)
    known = bound.get(str(pattern.value)) if pattern.op == "variable" else None
    parts = _Product.of(known).factors if known is not None else ()
    if len(parts) > 1:
        left: Sequence[Term] | None = terms
        for part in parts:
            left = _without(left, part) if left is not None and part in left else None
        if left is not None:
            yield from _any_order(others, left, bound)
        return
    for position, term in enumerate(terms):
        for found in _matched(pattern, term, bound):
            yield from _any_order(others, [*terms[:position], *terms[position + 1 :]], found)


def _rank(bound: Bound, pattern: Term) -> int:
    if pattern.op != "variable":
        return 0
    return 1 if pattern.value in bound else 2


def _without(terms: Sequence[Term], term: Term) -> Sequence[Term]:
    at = list(terms).index(term)
    return [*terms[:at], *terms[at + 1 :]]
