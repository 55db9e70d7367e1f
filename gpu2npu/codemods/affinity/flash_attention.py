"""The functions of the package flash_attn, which an Ascend machine cannot install, on npu_fusion_attention."""

from __future__ import annotations

import ast

from gpu2npu.shapes.kind import AffinityKind, AffinityReplacement, FusedCase
from gpu2npu.shapes.reading import TermReader

_MODULES = frozenset({"flash_attn", "flash_attn.flash_attn_interface"})
_KINDS = ("", "kvpacked_", "qkvpacked_", "varlen_", "varlen_kvpacked_", "varlen_qkvpacked_")
_FUNCTIONS = frozenset(f"flash_attn_{kind}func" for kind in _KINDS)
# Arguments that the operator has nothing for.
_OTHER = ("alibi_slopes", "softcap", "return_attn_probs", "return_softmax", "block_table")


def find(reading: TermReader, node: ast.ImportFrom) -> AffinityReplacement | None:
    """An import of nothing but these functions that the file cannot do without."""
    names = {each.name for each in node.names}
    if node.module not in _MODULES or node.level or not names <= _FUNCTIONS:
        return None
    guarded = any(isinstance(each, (ast.Try, ast.If)) for each in reading.file.above(node))
    if guarded or any(word in reading.file.text for word in _OTHER):
        return None
    return AffinityReplacement(imports=", ".join(ast.unparse(each) for each in node.names))


_VARLEN = """from {} import flash_attn_varlen_func

def f(q, k, v):
    ends = torch.tensor([0, 2, 5], dtype=torch.int32, device=q.device)
    return flash_attn_varlen_func(q, k, v, ends, ends, 3, 3, causal=True)
"""
_PACKED = """from {} import flash_attn_kvpacked_func as attend, flash_attn_qkvpacked_func

def f(q, kv, qkv):
    return attend(q, kv, causal=True), flash_attn_qkvpacked_func(qkv, 0.0, 0.3, window_size=(1, 0))
"""
_PLAIN = """from {} import flash_attn_func

def f(q, k, v):
    return flash_attn_func(q, k, v, softmax_scale=0.5), flash_attn_func(q, k, v, 0.0, None, True)
"""
FLASH_ATTENTION = AffinityKind(
    "flash-attention",
    find,
    (ast.ImportFrom,),
    (b"flash_attn",),
    ("npu::npu_fusion_attention",),
    "npu_fusion_attention has the layouts, masks and variable lengths of flash_attn.",
    "Dropout draws other random numbers.",
    {"float32": 1e-5, "float16": 8e-3, "bfloat16": 6e-2},
    (
        FusedCase(
            _PLAIN.format("flash_attn"),
            _PLAIN.format("ascend_affinity.flash_attention"),
            ("b s 4 16", "b 5 2 16", "b 5 2 16"),
            mixes=False,
        ),
        FusedCase(
            _PACKED.format("flash_attn.flash_attn_interface"),
            _PACKED.format("ascend_affinity.flash_attention"),
            ("b s 2 16", "b 5 2 2 16", "b h 3 2 16"),
            mixes=False,
        ),
        FusedCase(
            _VARLEN.format("flash_attn"),
            _VARLEN.format("ascend_affinity.flash_attention"),
            ("5 4 16", "5 2 16", "5 2 16"),
            mixes=False,
        ),
        FusedCase(
            "try:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n    flash_attn_func = None\n"
        ),
        FusedCase("from flash_attn import flash_attn_func, flash_attn_with_kvcache\n"),
        FusedCase(
            "from flash_attn import flash_attn_func\n\ndef f(x):\n    return flash_attn_func(x, x, x, softcap=30.0)\n"
        ),
    ),
    safe=False,
)
