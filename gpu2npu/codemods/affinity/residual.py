"""A LayerNorm of a sum, products of stacked matrices, and one-hot vectors."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.kind import AffinityKind, AffinityReplacement, FusedCase
from gpu2npu.codemods.affinity.reading import TermReader
from gpu2npu.python.meaning.types import ValueTypes


def find_sum_norm(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`self.norm(x + y)`, where `self.norm` is a LayerNorm."""
    total = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if (
        not isinstance(total, ast.BinOp)
        or not isinstance(total.op, ast.Add)
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    file = reading.file
    if ValueTypes(file.names).of(node.func, file.scope_of(node)) != {"torch.nn.LayerNorm"}:
        return None
    parts = (node.func, total.left, total.right)
    norm, left, right = (file.bounds(each) for each in parts)
    return AffinityReplacement(("(", norm, ", ", left, ", ", right, ")"), "add_layer_norm")


def find_stacked(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`torch.stack([a @ b for a, b in zip(x, y)])`."""
    listed = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if reading.qualified(node.func) != "torch.stack" or not isinstance(listed, (ast.ListComp, ast.GeneratorExp)):
        return None
    loop, product = listed.generators[0], listed.elt
    zipped = loop.iter
    if len(listed.generators) != 1 or loop.ifs or loop.is_async or not isinstance(loop.target, ast.Tuple):
        return None
    if not isinstance(zipped, ast.Call) or ast.unparse(zipped.func) != "zip" or len(zipped.args) != 2:
        return None
    names = [each.id for each in loop.target.elts if isinstance(each, ast.Name)]
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.MatMult) or zipped.keywords:
        return None
    if [ast.unparse(product.left), ast.unparse(product.right)] != names:
        return None
    first, second = (reading.file.bounds(each) for each in zipped.args)
    return AffinityReplacement(("(", first, ", ", second, ")"), "stacked_matmul")


def find_one_hot(reading: TermReader, node: ast.Call) -> AffinityReplacement | None:
    """`F.one_hot(x, n).float()`."""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(inner, ast.Call) or reading.qualified(inner.func) != "torch.nn.functional.one_hot":
        return None
    if node.args or node.keywords:
        return None
    count = inner.args[1] if len(inner.args) == 2 else None
    for each in inner.keywords:
        count = each.value if each.arg == "num_classes" and len(inner.keywords) == 1 else None
    if count is None or not inner.args:
        return None
    x, classes = reading.file.bounds(inner.args[0]), reading.file.bounds(count)
    return AffinityReplacement(("(", x, ", ", classes, ")"), "one_hot")


_NORM = """
class A(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = torch.nn.LayerNorm(d)

    def forward(self, x, y):
        return {}

def f(x, y):
    return A(x.size(-1)).to(x.device, x.dtype)(x, y)
"""
SUM_NORM = AffinityKind(
    "add-layer-norm",
    find_sum_norm,
    (ast.Call,),
    (b"LayerNorm",),
    ("npu::npu_add_layer_norm",),
    "npu_add_layer_norm adds and normalises in one operator.",
    "The result is rounded once; the module's hooks do not run, which FSDP and ZeRO-3 need.",
    {"float32": 1e-5, "float16": 8e-3, "bfloat16": 6e-2},
    (
        FusedCase(
            _NORM.format("self.norm(x * 2 + y)"),
            _NORM.format("ascend_affinity.add_layer_norm(self.norm, x * 2, y)"),
            ("b s 16", "b s 16"),
            mixes=False,
        ),
        FusedCase(_NORM.format("self.norm(x - y)")),
        FusedCase("def f(norm, x, y):\n    return norm(x + y)  # LayerNorm\n"),
    ),
    safe=False,
    calls=None,
)
STACKED = AffinityKind(
    "stacked-matmul",
    find_stacked,
    (ast.Call,),
    (b"stack(",),
    ("aten::bmm",),
    "One batched product takes the place of a loop of small ones.",
    "Products are added in another order.",
    {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2},
    (
        FusedCase(
            "def f(x, w):\n    return torch.stack([a @ b for a, b in zip(x, w)])\n",
            "def f(x, w):\n    return ascend_affinity.stacked_matmul(x, w)\n",
            ("b s d", "b d h"),
            mixes=False,
        ),
        FusedCase("def f(x, w):\n    return torch.stack([b @ a for a, b in zip(x, w)])\n"),
        FusedCase("def f(x, w):\n    return torch.stack([a @ b for a, b in zip(x, w) if len(a)])\n"),
    ),
    calls=frozenset({"stack"}),
)
ONE_HOT = AffinityKind(
    "one-hot",
    find_one_hot,
    (ast.Call,),
    (b"one_hot",),
    ("npu::npu_one_hot",),
    "npu_one_hot gives floats in one operator.",
    "Indices out of range give zeros, where one_hot raises.",
    {"float32": 0, "float16": 0, "bfloat16": 0},
    (
        FusedCase(
            "def f(x):\n    best = x.argmax(-1)\n    return F.one_hot(best, x.size(-1)).float() * x\n",
            "def f(x):\n    best = x.argmax(-1)\n    return ascend_affinity.one_hot(best, x.size(-1)) * x\n",
            ("b d",),
        ),
        FusedCase("def f(x):\n    return F.one_hot(x).float()\n"),
        FusedCase("def f(x):\n    return F.one_hot(x, 3)\n"),
    ),
    safe=False,
    calls=frozenset({"float"}),
)
