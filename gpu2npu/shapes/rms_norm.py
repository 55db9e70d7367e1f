"""RMSNorm spelled out: `weight * (x * rsqrt(mean(x ** 2) + eps))` and all its spellings."""

from __future__ import annotations

import ast

from gpu2npu.python.tree.syntax import last_name
from gpu2npu.shapes.kind import ArgumentTemplate, FusedMatch
from gpu2npu.shapes.reading import TermReader
from gpu2npu.shapes.terms import FLOAT32, Term, dtypes, factors, without_casts


def find(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """The product of a normalised value and a weight."""
    root = reading.term(node)
    above, below = factors(root)
    if root.op not in ("mul", "div") or len(above) + len(below) != 3:
        return None
    for position, factor in enumerate(above):
        inner = _under_root(factor, "rsqrt")
        if inner is not None and not below:
            return _normed(root, inner, [each for index, each in enumerate(above) if index != position])
    inner = _under_root(below[0], "sqrt") if len(below) == 1 else None
    return _normed(root, inner, above) if inner is not None else None


def _under_root(factor: Term, op: str) -> tuple[Term, Term] | None:
    """The x and the epsilon of `rsqrt(mean(x ** 2) + epsilon)`."""
    factor = without_casts(factor)
    total = without_casts(factor.args[0]) if factor.op == op else None
    if total is None or total.op != "add":
        return None
    for mean, epsilon in (total.args, total.args[::-1]):
        mean = without_casts(mean)
        square = without_casts(mean.args[0]) if mean.op == "mean" else None
        if square is not None and square.op == "pow" and square.args[1].number == 2 and epsilon.op in ("const", "leaf"):
            return without_casts(square.args[0]), epsilon
    return None


def _normed(root: Term, inner: tuple[Term, Term], others: list[Term]) -> FusedMatch | None:
    """The match where the two other factors are the x of the mean and a weight."""
    x, epsilon = inner
    weights = [each for each in others if without_casts(each) != x]
    is_layer_norm = x.op == "sub" and any(part.op == "mean" for part in x.args)
    if len(others) != 2 or len(weights) != 1 or weights[0].number is not None or is_layer_norm:
        return None
    weight = weights[0]
    known = dtypes(root) - dtypes(epsilon) if _is_number(epsilon) else dtypes(root)
    if known == dtypes(x, weight):
        return FusedMatch(root, "rms_norm", (x, weight, epsilon))
    if known == {FLOAT32}:
        return FusedMatch(root, "rms_norm", (ArgumentTemplate("{x}.float()", {"x": x}), weight, epsilon))
    return None


def _is_number(epsilon: Term) -> bool:
    """Return whether a value is called what the small number under the root is."""
    return any("eps" in (last_name(each) or "") for each in epsilon.spelled)
