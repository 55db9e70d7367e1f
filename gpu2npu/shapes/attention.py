"""Scaled dot-product attention spelled out: `softmax(q @ k.transpose(-2, -1) * scale) @ v`, masked or not."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.python.tree.syntax import last_name
from gpu2npu.shapes.kind import Argument, ArgumentTemplate, FusedMatch
from gpu2npu.shapes.reading import TermReader
from gpu2npu.shapes.terms import Term, without_casts

# Scores up to here do not count: their exponential is 0 in all dtypes.
_LEAST = -1e4
_TURNING = frozenset({"permute", "transpose", "swapaxes"})


class _Scores(Struct, frozen=True):
    """The scores of query and key: `options` are the keywords of scale, mask and bias."""

    query: Term
    key: Argument
    options: tuple[Argument, ...] = ()
    is_masked: bool = False


def find_attention(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """A product with the softmax of a scaled product."""
    return _attention(reading, node, is_masked=False)


def find_masked_attention(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """A product with the softmax of a scaled product that has a mask or a bias, or with that softmax dropped out."""
    return _attention(reading, node, is_masked=True)


def _attention(reading: TermReader, node: ast.expr, is_masked: bool) -> FusedMatch | None:
    root = reading.term(node)
    product = root.args[0] if root.op == "transposed" else root
    if product.op != "matmul":
        return None
    weights, value = without_casts(product.args[0]), product.args[1]
    dropout: tuple[Argument, ...] = ()
    if weights.op == "dropout":
        first, *training = weights.args[1:]
        template = "dropout=({rate}, {training})" if training else "dropout={rate}"
        named = {"rate": first, **dict(zip(("training",), training, strict=False))}
        dropout = (ArgumentTemplate(template, named),)
        weights = without_casts(weights.args[0])
    scores = _scores(without_casts(weights.args[0])) if weights.op == "softmax" else None
    if scores is None or (scores.is_masked or bool(dropout)) != is_masked:
        return None
    behind = ".mT" if product is not root else ""
    given = (_turned(scores.query), scores.key, _turned(value), *scores.options, *dropout)
    return FusedMatch(root, "attention", given, behind)


def _turned(term: Term) -> Argument:
    """The argument for a value that is written, or for one that an equation turns."""
    while term.op == "transposed" == term.args[0].op and not term.spelled and not term.args[0].spelled:
        term = term.args[0].args[0]
    return _transposed(term.args[0]) if term.op == "transposed" and not term.spelled else term


def _transposed(term: Term) -> Argument:
    return ArgumentTemplate("{value}.mT", {"value": term})


def _scores(term: Term) -> _Scores | None:
    """The scores that a term is: masked, with a bias, scaled, or plain."""
    term = without_casts(term)
    if term.op == "masked":
        inner = _scores(term.args[0])
        if inner is None or inner.is_masked or not _is_least(term.args[2]):
            return None
        hidden = ArgumentTemplate("hidden={mask}", {"mask": term.args[1]})
        return replace(inner, options=(*inner.options, hidden, *_fill(term.args[2])), is_masked=True)
    if term.op == "add":
        for one, other in (term.args, term.args[::-1]):
            inner = _scores(one)
            if inner is not None and not inner.is_masked:
                bias = ArgumentTemplate("bias={bias}", {"bias": other})
                return replace(inner, options=(*inner.options, bias), is_masked=True)
        return None
    return _scaled(term)


def _scaled(term: Term) -> _Scores | None:
    if term.op == "matmul":
        return _product(term)
    for one, scale in _scales(term, "scale={scale}", "scale=1.0 / {scale}"):
        inner = without_casts(one)
        if inner.op == "matmul":
            found = _product(inner)
            return found and replace(found, options=(*found.options, scale))
    return None


def _scales(term: Term, factor: str, divisor: str) -> Iterator[tuple[Term, ArgumentTemplate]]:
    """The ways to read a term as a value times a scale: the value, and the argument for a factor or for a divisor."""
    if term.op == "mul":
        yield term.args[0], ArgumentTemplate(factor, {"scale": term.args[1]})
        yield term.args[1], ArgumentTemplate(factor, {"scale": term.args[0]})
    elif term.op == "div" and _is_divisor(term.args[1]):
        yield term.args[0], ArgumentTemplate(divisor, {"scale": term.args[1]})


def _product(term: Term) -> _Scores | None:
    """The scores of a plain product; a query without a name may be a product with a number or an attribute."""
    query, key = term.args
    transposed = key.op == "transposed"
    if not transposed and not any(_has_two_dimensions(each) for each in key.spelled):
        return None
    turned = _turned(key.args[0]) if transposed else _transposed(key)
    is_named = any(isinstance(each, ast.Name) for each in query.spelled)
    scaled = _scales(query, "query_scale={scale}", "query_scale=1.0 / {scale}")
    for one, scale in scaled if not is_named else ():
        if _is_number(scale.terms["scale"]):
            return _Scores(one, turned, (scale,))
    return _Scores(query, turned)


def _is_divisor(term: Term) -> bool:
    """Return whether a value is a number or a root: by another, which may be 0.0, only a tensor can be divided."""
    return bool(term.number) or term.op == "sqrt" or any(last_name(each) == "sqrt" for each in term.spelled)


def _has_two_dimensions(node: ast.expr) -> bool:
    """Return whether code moves a dimension that only a value of two or more has, such as `k.transpose(1, 2)`."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in _TURNING:
        return False
    numbers = [each.value for each in node.args if isinstance(each, ast.Constant)]
    return any(isinstance(each, int) and each >= 1 for each in numbers)


def _is_number(term: Term) -> bool:
    return term.number is not None or any(_is_scale(each) for each in term.spelled)


def _is_scale(node: ast.expr) -> bool:
    """Return whether code names a scale: an attribute or a name, or a root."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return "scal" in ast.unparse(node)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "math.sqrt"


def _fill(term: Term) -> tuple[Argument, ...]:
    """The keyword of what hidden scores become, unless that is minus infinity."""
    if term.op == "least":
        return ("fill=None",)
    return () if term.number == -math.inf else (ArgumentTemplate("fill={value}", {"value": term}),)


def _is_least(term: Term) -> bool:
    return term.op == "least" or (term.number is not None and term.number <= _LEAST)
