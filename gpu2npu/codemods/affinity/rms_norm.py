"""RMSNorm spelled out: `weight * (x * rsqrt(mean(x ** 2) + eps))` and all its spellings."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.kind import AffinityKind, FusedCase, FusedMatch
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.codemods.affinity.terms import FLOAT32, Term, dtypes, factors, without_casts


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
    if dtypes(root) == dtypes(x, weight):
        return FusedMatch(root, "rms_norm", (x, weight, epsilon))
    if dtypes(root) == {FLOAT32}:
        return FusedMatch(root, "rms_norm", (("", x, ".float()"), weight, epsilon))
    return None


EXAMPLES = (
    FusedCase(
        """
def f(h, weight):
    input_dtype = h.dtype
    h = h.to(torch.float32)
    variance = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(variance + 1e-5)
    return weight * h.to(input_dtype)
""",
        """
def f(h, weight):
    return ascend_affinity.rms_norm(h, weight, 1e-5)
""",
        ("b s d", "d"),
    ),
    FusedCase(
        """
def normed(x, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)

def f(x, weight):
    output = normed(x.float(), 1e-6).type_as(x)
    return output * weight
""",
        """
def normed(x, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)

def f(x, weight):
    return ascend_affinity.rms_norm(x, weight, 1e-6)
""",
        ("b s d", "d"),
    ),
    FusedCase(
        """
def f(x, w):
    return w * x / torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-6)
""",
        """
def f(x, w):
    return ascend_affinity.rms_norm(x, w, 1e-6)
""",
        ("b d", "d"),
    ),
    FusedCase(
        """
def f(x, w):
    normed = x.float()
    normed = normed * torch.rsqrt(normed.pow(2).mean(-1, keepdim=True) + 1e-6)
    normed = normed * (1.0 + w.float())
    return normed.type_as(x)
""",
        """
def f(x, w):
    normed = ascend_affinity.rms_norm(x, 1.0 + w.float(), 1e-6)
    return normed.type_as(x)
""",
        ("b s d", "d"),
    ),
    # No weight, another dimension, deviations from a mean, and a value that changes between.
    FusedCase("def f(x):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)\n"),
    FusedCase("def f(x, w):\n    return w * x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)\n"),
    FusedCase("def f(x, w):\n    return w * x * torch.rsqrt(x.pow(2).mean(-1) + 1e-6)\n"),
    FusedCase("def f(x, w):\n    return 2 * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)\n"),
    FusedCase("def f(x, w, y):\n    return w * y * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)\n"),
    FusedCase(
        """
def f(x, w):
    u = x.mean(-1, keepdim=True)
    s = (x - u).pow(2).mean(-1, keepdim=True)
    return w * (x - u) * torch.rsqrt(s + 1e-6)
"""
    ),
    FusedCase(
        """
def f(x, w):
    variance = x.pow(2).mean(-1, keepdim=True)
    x += 1
    return w * x * torch.rsqrt(variance + 1e-6)
"""
    ),
    FusedCase(
        """
def f(x, w, wide):
    variance = x.pow(2).mean(-1, keepdim=True)
    if wide:
        x = x.float()
    return w * x * torch.rsqrt(variance + 1e-6)
"""
    ),
)

RMS_NORM = AffinityKind(
    "rms-norm",
    find,
    (ast.BinOp,),
    (b"rsqrt", b"sqrt", b"**"),
    ("npu::npu_rms_norm",),
    "npu_rms_norm computes in one operator what took six or more.",
    "Statistics are float32 and the result is rounded once; code that squares float16 itself overflows from 256 on.",
    {"float32": 1e-5, "float16": 8e-3, "bfloat16": 6e-2},
    EXAMPLES,
)
