"""RMSNorm spelled out: `weight * (x * rsqrt(mean(x ** 2) + eps))` and all its spellings."""

from __future__ import annotations

import ast

from gpu2npu.codemods.affinity.kind import Example, Kind, Match, match
from gpu2npu.codemods.affinity.reading import Reading
from gpu2npu.codemods.affinity.terms import FLOAT32, Term, dtypes, factors, without_casts


def find(reading: Reading, node: ast.expr) -> Match | None:
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


def _normed(root: Term, inner: tuple[Term, Term], others: list[Term]) -> Match | None:
    """The match where the two other factors are the x of the mean and a weight."""
    x, epsilon = inner
    weights = [each for each in others if without_casts(each) != x]
    is_layer_norm = x.op == "sub" and any(part.op == "mean" for part in x.args)
    if len(others) != 2 or len(weights) != 1 or weights[0].number is not None or is_layer_norm:
        return None
    weight = weights[0]
    if dtypes(root) == dtypes(x, weight):
        return match(root, "rms_norm", x, weight, epsilon)
    if dtypes(root) == {FLOAT32}:
        return match(root, "rms_norm", x, weight, epsilon, suffixes={0: ".float()"})
    return None


_HEAD = "import torch\nfrom torch import nn\n\n\n"
_LLAMA = (
    _HEAD
    + """class Norm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, h):
        input_dtype = h.dtype
        h = h.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(variance + self.eps)
        return self.weight * h.to(input_dtype)
"""
)
_LLAMA_AFTER = """import torch
from torch import nn
import ascend_affinity


class Norm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, h):
        return ascend_affinity.rms_norm(h, self.weight, self.eps)
"""

EXAMPLES = (
    Example(
        "import torch\n\n\ndef f(h, weight):\n    input_dtype = h.dtype\n    h = h.to(torch.float32)\n"
        "    variance = h.pow(2).mean(-1, keepdim=True)\n    h = h * torch.rsqrt(variance + 1e-5)\n"
        "    return weight * h.to(input_dtype)\n",
        "import torch\nimport ascend_affinity\n\n\ndef f(h, weight):\n"
        "    return ascend_affinity.rms_norm(h, weight, 1e-5)\n",
        ("b s d", "d"),
    ),
    Example(
        "import torch\n\n\ndef normed(x, eps):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)\n\n\n"
        "def f(x, weight):\n    output = normed(x.float(), 1e-6).type_as(x)\n    return output * weight\n",
        "import torch\nimport ascend_affinity\n\n\n"
        "def normed(x, eps):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)\n\n\n"
        "def f(x, weight):\n    return ascend_affinity.rms_norm(x, weight, 1e-6)\n",
        ("b s d", "d"),
    ),
    Example(
        "import torch\n\n\ndef f(x, w):\n    return w * x / torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-6)\n",
        "import torch\nimport ascend_affinity\n\n\ndef f(x, w):\n    return ascend_affinity.rms_norm(x, w, 1e-6)\n",
        ("b d", "d"),
    ),
    Example(
        "import torch\n\n\ndef f(x, w):\n    normed = x.float()\n"
        "    normed = normed * torch.rsqrt(normed.pow(2).mean(-1, keepdim=True) + 1e-6)\n"
        "    normed = normed * (1.0 + w.float())\n    return normed.type_as(x)\n",
        "import torch\nimport ascend_affinity\n\n\ndef f(x, w):\n"
        "    normed = ascend_affinity.rms_norm(x, 1.0 + w.float(), 1e-6)\n    return normed.type_as(x)\n",
        ("b s d", "d"),
    ),
    Example("import torch\n\n\ndef f(x):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)\n"),
    Example("import torch\n\n\ndef f(x, w):\n    return w * x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)\n"),
    Example(
        "import torch\n\n\ndef f(x, w):\n    u = x.mean(-1, keepdim=True)\n"
        "    s = (x - u).pow(2).mean(-1, keepdim=True)\n    return w * (x - u) * torch.rsqrt(s + 1e-6)\n"
    ),
    Example(
        "import torch\n\n\ndef f(x, w, log):\n    variance = x.pow(2).mean(-1, keepdim=True)\n    x += 1\n"
        "    return w * x * torch.rsqrt(variance + 1e-6)\n"
    ),
    Example(_LLAMA, _LLAMA_AFTER),
)

RMS_NORM = Kind(
    "rms-norm",
    find,
    (ast.BinOp,),
    (b"rsqrt", b"sqrt"),
    ("npu::npu_rms_norm",),
    "npu_rms_norm computes in one operator what took six or more.",
    "Statistics are float32 and the result is rounded once; code that squares float16 itself overflows from 256 on.",
    {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2},
    EXAMPLES,
)
