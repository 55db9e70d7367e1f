"""Calls of PyTorch's functions for which torch_npu has an operator: the call goes to the function that chooses."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gpu2npu.codemods.affinity.edit import ProgramReader
from gpu2npu.codemods.affinity.exclusions.derivatives import compares_class
from gpu2npu.python.tree.syntax import arguments, is_unpacked
from gpu2npu.shapes.kind import AffinityKind, AffinityReplacement, Find, FusedCase, FusedMatch


def renamed(name: str, function: str, left: Collection[str] = (), most: int = 9, since: int = 0) -> Find:
    """Finds calls of a qualified name without the keywords `left` and with at most `most` arguments by position, for
    PyTorch 2.`since` and later: before, a project has a function of its own under that name."""

    def find(reading: ProgramReader, node: ast.Call) -> AffinityReplacement | None:
        given = {each.arg for each in node.keywords}
        if reading.qualified(node.func) != name or any(is_unpacked(each) for each in arguments(node)):
            return None
        release = tuple(int(part) for part in reading.program.version.split(".")[:2])
        fits = given.isdisjoint(left) and len(node.args) <= most and release >= (2, since)
        return AffinityReplacement(function=function, at=reading.file.bounds(node.func)) if fits else None

    return find


def _find_module(reading: ProgramReader, node: ast.Call) -> FusedMatch | AffinityReplacement | None:
    """`nn.RMSNorm(...)` in a program that does not compare exact classes with it."""
    found = _MODULE(reading, node)
    return found if found is None or not compares_class(reading.program, "torch.nn.RMSNorm") else None


_HALF = {"float32": 1e-5, "float16": 8e-3, "bfloat16": 6e-2}

ATTENTION_CALL = AffinityKind(
    "attention-call",
    renamed(
        "torch.nn.functional.scaled_dot_product_attention",
        "scaled_dot_product_attention",
        ("attn_mask", "dropout_p"),
        most=3,
    ),
    (ast.Call,),
    (b"scaled_dot_product_attention",),
    ("npu::npu_fusion_attention",),
    "npu_fusion_attention computes attention in one operator in float32 too, and takes a compressed mask.",
    "The softmax is float32 and the result is rounded once.",
    _HALF,
    (
        FusedCase(
            "def f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
            "def f(q, k, v):\n    return ascend_affinity.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
            ("b h s 16", "b h s 16", "b h s 16"),
            mixes=False,
        ),
        FusedCase(
            "def f(q, k, v):\n    return F.scaled_dot_product_attention(query=q, key=k, value=v, scale=0.5)\n",
            "def f(q, k, v):\n"
            "    return ascend_affinity.scaled_dot_product_attention(query=q, key=k, value=v, scale=0.5)\n",
            ("b h s 16", "b h s 16", "b h s 16"),
            mixes=False,
        ),
        FusedCase("def f(q, k, v, m):\n    return F.scaled_dot_product_attention(q, k, v, attn_mask=m)\n"),
        FusedCase("def f(q, k, v, m):\n    return F.scaled_dot_product_attention(q, k, v, m)\n"),
        FusedCase("def f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)\n"),
    ),
    calls=frozenset({"scaled_dot_product_attention"}),
)
MASKED_ATTENTION_CALL = AffinityKind(
    "masked-attention-call",
    renamed("torch.nn.functional.scaled_dot_product_attention", "scaled_dot_product_attention"),
    (ast.Call,),
    (b"scaled_dot_product_attention",),
    ("npu::npu_fusion_attention",),
    "npu_fusion_attention computes attention in one operator; its mask is True where nothing counts.",
    "Beside rounding: rows of which all is hidden give 0, or what their scores say, and dropout draws other random "
    "numbers.",
    _HALF,
    (
        FusedCase(
            """
def f(q, k, v):
    mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=q.device).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0)
""",
            """
def f(q, k, v):
    mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=q.device).tril()
    return ascend_affinity.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0)
""",
            ("b h s 16", "b h s 16", "b h s 16"),
            mixes=False,
        ),
        FusedCase(
            "def f(q, k, v, bias):\n    return F.scaled_dot_product_attention(q, k, v, bias, 0.0, scale=0.3)\n",
            "def f(q, k, v, bias):\n"
            "    return ascend_affinity.scaled_dot_product_attention(q, k, v, bias, 0.0, scale=0.3)\n",
            ("b h s 16", "b h s 16", "b h s 16", "h s s"),
            mixes=False,
        ),
        FusedCase("def f(q, options):\n    return F.scaled_dot_product_attention(q, q, q, **options)\n"),
    ),
    safe=False,
    calls=frozenset({"scaled_dot_product_attention"}),
)
CROSS_ENTROPY = AffinityKind(
    "cross-entropy",
    renamed("torch.nn.functional.cross_entropy", "cross_entropy", ("size_average", "reduce"), most=3),
    (ast.Call,),
    (b"cross_entropy",),
    ("npu::npu_cross_entropy_loss",),
    "npu_cross_entropy_loss computes log_softmax and the loss in one operator, which matters for large vocabularies.",
    "The loss of each row is rounded, and sums are added in another order.",
    _HALF,
    (
        FusedCase(
            """
def f(x):
    target = torch.arange(x.size(0), device=x.device) % x.size(1)
    return F.cross_entropy(x, target, ignore_index=1, reduction="sum")
""",
            """
def f(x):
    target = torch.arange(x.size(0), device=x.device) % x.size(1)
    return ascend_affinity.cross_entropy(x, target, ignore_index=1, reduction="sum")
""",
            ("s d",),
        ),
        FusedCase(
            """
def f(x):
    target = torch.arange(x.size(0), device=x.device) % x.size(1)
    return F.cross_entropy(x.float(), target, label_smoothing=0.1)
""",
            """
def f(x):
    target = torch.arange(x.size(0), device=x.device) % x.size(1)
    return ascend_affinity.cross_entropy(x.float(), target, label_smoothing=0.1)
""",
            ("s d",),
        ),
        # The operator takes labels of classes only.
        FusedCase(
            """
def f(x):
    target = torch.arange(x.size(0), device=x.device) % x.size(1)
    target[0] = -100
    return F.cross_entropy(x, target), F.cross_entropy(x, target, reduction="none")
""",
            """
def f(x):
    target = torch.arange(x.size(0), device=x.device) % x.size(1)
    target[0] = -100
    return ascend_affinity.cross_entropy(x, target), ascend_affinity.cross_entropy(x, target, reduction="none")
""",
            ("5 d",),
        ),
        FusedCase(
            "def f(x):\n    return F.cross_entropy(x, x.softmax(1))\n",
            "def f(x):\n    return ascend_affinity.cross_entropy(x, x.softmax(1))\n",
            ("s d",),
        ),
        FusedCase("def f(x, t):\n    return F.cross_entropy(x, t, size_average=False)\n"),
    ),
    calls=frozenset({"cross_entropy"}),
)
RMS_NORM_CALL = AffinityKind(
    "rms-norm-call",
    renamed("torch.nn.functional.rms_norm", "functional_rms_norm", since=4),
    (ast.Call,),
    (b"rms_norm",),
    ("npu::npu_rms_norm",),
    "PyTorch's rms_norm runs as several operators on an NPU; npu_rms_norm is one.",
    "Statistics are float32 and the result is rounded once.",
    _HALF,
    (
        FusedCase(
            "def f(x, w):\n    return F.rms_norm(x, (x.size(-1),), w, 1e-6)\n",
            "def f(x, w):\n    return ascend_affinity.functional_rms_norm(x, (x.size(-1),), w, 1e-6)\n",
            ("b s d", "d"),
            mixes=False,
        ),
        FusedCase(
            "def f(x, w):\n    return F.rms_norm(x, w.shape, weight=w)\n",
            "def f(x, w):\n    return ascend_affinity.functional_rms_norm(x, w.shape, weight=w)\n",
            ("b s d", "d"),
            mixes=False,
        ),
        # Without a number, PyTorch adds one that depends on its release.
        FusedCase(
            "def f(x, w):\n    return F.rms_norm(x * 0.01, w.shape, w)\n",
            "def f(x, w):\n    return ascend_affinity.functional_rms_norm(x * 0.01, w.shape, w)\n",
            ("b s d", "d"),
            mixes=False,
        ),
        FusedCase("def f(x, w, rms_norm):\n    return rms_norm(x, w.shape, w)\n"),
    ),
    calls=frozenset({"rms_norm"}),
)
_MODULE = renamed("torch.nn.RMSNorm", "RMSNorm", since=4)
RMS_NORM_MODULE = AffinityKind(
    "rms-norm-module",
    _find_module,
    (ast.Call,),
    (b"RMSNorm",),
    ("npu::npu_rms_norm",),
    "PyTorch's RMSNorm runs as several operators on an NPU; npu_rms_norm is one.",
    "Statistics are float32 and the result is rounded once.",
    _HALF,
    (
        FusedCase(
            """
def f(x, w):
    norm = torch.nn.RMSNorm(w.numel(), eps=1e-5)
    norm.weight = torch.nn.Parameter(torch.ones_like(w))
    return norm(x) * w
""",
            """
def f(x, w):
    norm = ascend_affinity.RMSNorm(w.numel(), eps=1e-5)
    norm.weight = torch.nn.Parameter(torch.ones_like(w))
    return norm(x) * w
""",
            ("b s d", "d"),
            mixes=False,
        ),
        FusedCase("def f(RMSNorm):\n    return RMSNorm(8)\n"),
    ),
    calls=frozenset({"RMSNorm"}),
)
