"""Gated units over the halves of one tensor: SwiGLU and GeGLU."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.kind import AffinityKind, FusedCase, FusedMatch
from gpu2npu.codemods.affinity.reading import TermReader


def find_swiglu(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`silu(first half) * second half`, which is the order that the operator has."""
    root = reading.term(node)
    if root.op == "mul":
        for gate, other in (root.args, root.args[::-1]):
            halves = gate.op == "silu" and gate.args[0].op == "first_half" and other.op == "second_half"
            if halves and gate.args[0].args == other.args:
                return FusedMatch(root, "swiglu", (other.args[0],))
    return None


def find_geglu(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`half * gelu(other half)`, either way round."""
    root = reading.term(node)
    if root.op != "mul":
        return None
    for gate, other in (root.args, root.args[::-1]):
        half = gate.args[0] if gate.op == "gelu" else None
        if half is None or {half.op, other.op} != {"first_half", "second_half"} or half.args != other.args:
            continue
        left = half.op == "first_half"
        arguments = ([f'"{gate.value}"'] if left or gate.value != "none" else []) + (["True"] if left else [])
        return FusedMatch(root, "geglu", (other.args[0], *arguments))
    return None


SWIGLU = AffinityKind(
    "swiglu",
    find_swiglu,
    (ast.BinOp,),
    (b"silu",),
    ("npu::npu_swiglu",),
    "npu_swiglu computes in one operator what took three.",
    "The result is rounded once.",
    {"float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2},
    (
        FusedCase(
            """
def f(x):
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b
""",
            """
def f(x):
    return ascend_affinity.swiglu(x)
""",
            ("b s 8",),
        ),
        FusedCase(
            """
def f(x):
    x = torch.chunk(x, 2, dim=-1)
    return F.silu(x[0]) * x[1]
""",
            """
def f(x):
    return ascend_affinity.swiglu(x)
""",
            ("b 6",),
        ),
        # The gate is the second half, another dimension, and two tensors.
        FusedCase("def f(x):\n    a, b = x.chunk(2, dim=-1)\n    return a * F.silu(b)\n"),
        FusedCase("def f(x):\n    a, b = x.chunk(2, dim=1)\n    return F.silu(a) * b\n"),
        FusedCase("def f(a, b):\n    return F.silu(a) * b\n"),
    ),
)
GEGLU = AffinityKind(
    "geglu",
    find_geglu,
    (ast.BinOp,),
    (b"gelu",),
    ("npu::npu_geglu",),
    "npu_geglu computes in one operator what took three.",
    "The result is rounded once.",
    {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2},
    (
        FusedCase(
            """
def f(x):
    x, gate = x.chunk(2, dim=-1)
    return x * F.gelu(gate)
""",
            """
def f(x):
    return ascend_affinity.geglu(x)
""",
            ("b s 8",),
        ),
        FusedCase(
            """
def f(x):
    a, b = x.chunk(2, dim=-1)
    return F.gelu(a, approximate="tanh") * b
""",
            """
def f(x):
    return ascend_affinity.geglu(x, "tanh", True)
""",
            ("b 6",),
        ),
        FusedCase("def f(x, kind):\n    a, b = x.chunk(2, dim=-1)\n    return F.gelu(a, approximate=kind) * b\n"),
        FusedCase("def f(x):\n    a, b = x.chunk(2, dim=-1)\n    print(a)\n    return a * F.gelu(b)\n"),
    ),
)
