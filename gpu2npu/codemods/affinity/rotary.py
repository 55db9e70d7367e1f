"""Rotary position embedding spelled out: `x * cos + rotate(x) * sin`, in halves or in alternate elements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.affinity.kind import AffinityKind, FusedCase, FusedMatch
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.codemods.affinity.terms import Term


def find(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """The sum of a value times its cosine and the rotated value times its sine."""
    root = reading.term(node)
    if root.op != "add" or any(each.op != "mul" for each in root.args):
        return None
    for straight, turned in (root.args, root.args[::-1]):
        for rotated, sine in (turned.args, turned.args[::-1]):
            for x, mode in _rotations(rotated):
                if x in straight.args:
                    cosine = straight.args[1] if straight.args[0] == x else straight.args[0]
                    extra = ('"interleave"',) if mode == "interleave" else ()
                    return FusedMatch(root, "rotary_mul", (x, cosine, sine, *extra))
    return None


def _rotations(rotated: Term) -> Iterator[tuple[Term, str]]:
    """The x that a value is a quarter turn of: `cat(-second half, first half)` or `stack(-odd, even)` of it."""
    joined = rotated.args[0] if rotated.op == "flattened" else rotated
    pairs = {"cat": ("second_half", "first_half", "half"), "stack": ("odd", "even", "interleave")}
    if joined.op not in pairs or (joined.op == "stack") != (rotated.op == "flattened"):
        return
    second, first, mode = pairs[joined.op]
    minus, plus = joined.args
    if minus.op == "neg" and minus.args[0].op == second and plus.op == first and plus.args == minus.args[0].args:
        yield plus.args[0], mode


EXAMPLES = (
    FusedCase(
        """
def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)

def f(q, k, cos, sin):
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed
""",
        """
def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)

def f(q, k, cos, sin):
    q_embed = ascend_affinity.rotary_mul(q, cos, sin)
    k_embed = ascend_affinity.rotary_mul(k, cos, sin)
    return q_embed, k_embed
""",
        ("b h s 8", "b 1 s 8", "b 1 s 8", "b 1 s 8"),
    ),
    FusedCase(
        """
def f(x, cos, sin):
    x1, x2 = x.chunk(2, dim=-1)
    turned = torch.cat([-x2, x1], -1)
    return x * cos + turned * sin
""",
        """
def f(x, cos, sin):
    return ascend_affinity.rotary_mul(x, cos, sin)
""",
        ("b h s 6", "s 6", "s 6"),
    ),
    FusedCase(
        """
def rotate_every_two(x):
    x1 = x[..., ::2]
    x2 = x[..., 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)

def f(x, cos, sin):
    return cos * x + sin * rotate_every_two(x)
""",
        """
def rotate_every_two(x):
    x1 = x[..., ::2]
    x2 = x[..., 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)

def f(x, cos, sin):
    return ascend_affinity.rotary_mul(x, cos, sin, "interleave")
""",
        ("b s h 4", "1 s 1 4", "1 s 1 4"),
    ),
    # Not negated, the halves the other way round, and parts of different values.
    FusedCase("def f(x, c, s):\n    a, b = x.chunk(2, dim=-1)\n    return x * c + torch.cat((b, a), dim=-1) * s\n"),
    FusedCase("def f(x, c, s):\n    a, b = x.chunk(2, dim=-1)\n    return x * c + torch.cat((-a, b), dim=-1) * s\n"),
    FusedCase("def f(x, c, s):\n    a, b = x.chunk(2, dim=1)\n    return x * c + torch.cat((-b, a), dim=1) * s\n"),
    FusedCase("def f(x, y, c, s):\n    a, b = y.chunk(2, dim=-1)\n    return x * c + torch.cat((-b, a), dim=-1) * s\n"),
)

ROTARY = AffinityKind(
    "rotary-embedding",
    find,
    (ast.BinOp,),
    (b"cat(", b"stack(", b"concat("),
    ("npu::npu_rotary_mul",),
    "npu_rotary_mul computes in one operator what took five or more.",
    "The result is rounded once; what the operator does not take is computed as before.",
    {"float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2},
    EXAMPLES,
)
