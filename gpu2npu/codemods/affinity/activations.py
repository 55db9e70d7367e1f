"""Activations spelled out that PyTorch has a function for, which is one operator on an NPU, and gated units over the
halves of one tensor: SiLU, GELU, Mish, SwiGLU, GeGLU."""

from __future__ import annotations

import ast
import math

from gpu2npu.codemods.affinity.kind import AffinityKind, FusedCase, FusedMatch
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.codemods.affinity.terms import Term

_GELU = "torch.nn.functional.gelu"
# The factor of x ** 3 in the approximation of GELU by tanh (Hendrycks and Gimpel, arXiv:1606.08415), and the one that
# libraries use with sigmoid.
_CUBE = 0.044715
_QUICK = 1.702
_CLOSE = 1e-6


def _is(term: Term, number: float) -> bool:
    return term.number is not None and math.isclose(term.number, number, rel_tol=_CLOSE)


def _without(term: Term, op: str, number: float) -> Term | None:
    """The other operand of an operation with a number."""
    for one, other in (term.args, term.args[::-1]) if term.op == op else ():
        if _is(one, number):
            return other
    return None


def find_silu(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`x * sigmoid(x)`."""
    root = reading.term(node)
    for gate, x in (root.args, root.args[::-1]) if root.op == "mul" else ():
        if gate.op == "sigmoid" and gate.args[0] == x:
            return FusedMatch(root, "torch.nn.functional.silu", (x,))
    return None


def find_quick_gelu(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`x * sigmoid(1.702 * x)`."""
    root = reading.term(node)
    for gate, x in (root.args, root.args[::-1]) if root.op == "mul" else ():
        if gate.op == "sigmoid" and _without(gate.args[0], "mul", _QUICK) == x:
            return FusedMatch(root, "quick_gelu", (x,))
    return None


def find_mish(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`x * tanh(softplus(x))`."""
    root = reading.term(node)
    for gate, x in (root.args, root.args[::-1]) if root.op == "mul" else ():
        if gate.op == "tanh" and gate.args[0] == Term("softplus", (x,)):
            return FusedMatch(root, "torch.nn.functional.mish", (x,))
    return None


def find_gelu(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`0.5 * x * (1 + erf(x / sqrt(2)))`."""
    root = reading.term(node)
    found = _gated(root, "erf")
    return FusedMatch(root, _GELU, (found[0],)) if found is not None and _is_erf_argument(found[1], found[0]) else None


def find_tanh_gelu(reading: TermReader, node: ast.expr) -> FusedMatch | None:
    """`0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`."""
    root = reading.term(node)
    found = _gated(root, "tanh")
    if found is None or not _is_tanh_argument(found[1], found[0]):
        return None
    return FusedMatch(root, _GELU, (found[0], 'approximate="tanh"'))


def _gated(root: Term, op: str) -> tuple[Term, Term] | None:
    """The x and the y of `0.5 * x * (1 + op(y))`."""
    parts = _product(root)
    halves = [each for each in parts if _is(each, 0.5)]
    sums = [(each, inner) for each in parts if (inner := _without(each, "add", 1)) is not None]
    if len(parts) != 3 or len(halves) != 1 or len(sums) != 1:
        return None
    x = next(each for each in parts if each is not halves[0] and each is not sums[0][0])
    inner = sums[0][1]
    return (x, inner.args[0]) if inner.op == op else None


def _product(term: Term) -> list[Term]:
    return [*_product(term.args[0]), *_product(term.args[1])] if term.op == "mul" else [term]


def _is_erf_argument(term: Term, x: Term) -> bool:
    if term.op == "div":
        return term.args[0] == x and _is(term.args[1], math.sqrt(2))
    return _without(term, "mul", math.sqrt(0.5)) == x


def _is_tanh_argument(term: Term, x: Term) -> bool:
    total = _without(term, "mul", math.sqrt(2 / math.pi))
    cube = Term("pow", (x, Term("const", value=3.0)))
    if total is None or total.op != "add":
        return False
    return any(one == x and _without(other, "mul", _CUBE) == cube for one, other in (total.args, total.args[::-1]))


_ROUNDING = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
SILU = AffinityKind(
    "spelled-silu",
    find_silu,
    (ast.BinOp, ast.Call),
    (b"sigmoid",),
    ("aten::silu",),
    "silu is one operator, and keeps no sigmoid for the backward pass.",
    "The result is rounded once.",
    _ROUNDING,
    (
        FusedCase("def f(x):\n    return x * torch.sigmoid(x)\n", "def f(x):\n    return F.silu(x)\n", ("b d",)),
        FusedCase("def f(x):\n    return x.mul(x.sigmoid())\n", "def f(x):\n    return F.silu(x)\n", ("b d",)),
        FusedCase("def f(x, y):\n    return y * torch.sigmoid(x)\n"),
        FusedCase("def f(x):\n    return x.mul_(x.sigmoid())\n"),
        FusedCase("def f(x, g):\n    return g(x) * g(x).sigmoid()\n"),
    ),
)
QUICK_GELU = AffinityKind(
    "quick-gelu",
    find_quick_gelu,
    (ast.BinOp, ast.Call),
    (b"sigmoid",),
    ("npu::fast_gelu",),
    "fast_gelu is one operator, and keeps no sigmoid for the backward pass.",
    "The result is rounded once.",
    _ROUNDING,
    (
        FusedCase(
            "def f(x):\n    return x * torch.sigmoid(1.702 * x)\n",
            "def f(x):\n    return ascend_affinity.quick_gelu(x)\n",
            ("b d",),
        ),
        FusedCase("def f(x):\n    return x * torch.sigmoid(2 * x)\n"),
        FusedCase("def f(x, y):\n    return y * torch.sigmoid(1.702 * x)\n"),
    ),
)
MISH = AffinityKind(
    "spelled-mish",
    find_mish,
    (ast.BinOp, ast.Call),
    (b"softplus",),
    ("aten::mish",),
    "mish is one operator, and keeps nothing but x for the backward pass.",
    "The result is rounded once. Under autocast, where softplus is float32, the code gave float32, and mish the dtype "
    "of x.",
    _ROUNDING,
    (
        FusedCase(
            "def f(x):\n    return x * torch.tanh(F.softplus(x))\n", "def f(x):\n    return F.mish(x)\n", ("b d",)
        ),
        FusedCase("def f(x):\n    return x * torch.tanh(F.softplus(x, 2))\n"),
    ),
    safe=False,
)
GELU = AffinityKind(
    "spelled-gelu",
    find_gelu,
    (ast.BinOp,),
    (b"erf",),
    ("aten::gelu",),
    "gelu is one operator, and keeps nothing but x for the backward pass.",
    "The result is rounded once.",
    _ROUNDING,
    (
        FusedCase(
            "def f(x):\n    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))\n",
            "def f(x):\n    return F.gelu(x)\n",
            ("b d",),
        ),
        FusedCase("def f(x):\n    return x * 0.5 * (1.0 + torch.erf(x / 2.0))\n"),
        FusedCase("def f(x, y):\n    return y * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))\n"),
        FusedCase("def f(x):\n    return 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))\n"),
    ),
)
TANH_GELU = AffinityKind(
    "tanh-gelu",
    find_tanh_gelu,
    (ast.BinOp,),
    (b"tanh",),
    ("aten::gelu",),
    "gelu is one operator, and keeps nothing but x for the backward pass.",
    "The result is rounded once. Under autocast, where powers are float32, the code gave float32, and gelu the dtype "
    "of x.",
    _ROUNDING,
    (
        FusedCase(
            "def f(x):\n    cube = torch.pow(x, 3)\n"
            "    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * cube)))\n",
            'def f(x):\n    return F.gelu(x, approximate="tanh")\n',
            ("b d",),
        ),
        FusedCase("def f(x):\n    return 0.5 * x * (1 + torch.tanh(x + 0.044715 * torch.pow(x, 3)))\n"),
    ),
    safe=False,
)


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
