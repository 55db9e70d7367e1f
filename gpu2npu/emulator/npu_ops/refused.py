"""Operators that PyTorch composes for every device, with arguments that the NPU does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gpu2npu.emulator import shapes
from gpu2npu.emulator.device.dispatch.limits import refuse, refusing
from gpu2npu.emulator.device.dispatch.signature import read
from gpu2npu.emulator.npu_ops.attention_arithmetic import FAR
from gpu2npu.emulator.soc import SOCS, current_soc
from gpu2npu.support.conditions import CallFacts

_ASCEND910B1 = SOCS["Ascend910B1"].number
_LEFT_UP_CAUSAL = 2  # sparse_mode


def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`torch.kl_div`, of a target that is not a logarithm. Raises LimitError for one that is."""
    refuse("torch.nn.functional.kl_div", CallFacts({"log_target": log_target}))
    composed = torch.ops.aten.kl_div.default._op_dk
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    found: Tensor = composed(key, self, target, reduction, log_target=log_target)
    return found


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, as PyTorch composes it.

    torch_npu calls flash attention where it can, which keeps no scores: a shapes-only run counts memory as that does.
    The composition computes the same within rounding, and many small batches ten times as fast.
    """
    if shapes.is_on() and (attn_mask is None or not is_causal) and _is_flash(query, key, value, attn_mask):
        causal = torch.ones(2048, 2048, dtype=torch.bool, device=query.device).triu(1) if is_causal else None
        mask = causal if is_causal else None if attn_mask is None else ~attn_mask
        width = query.size(-1)
        result: Tensor = torch.ops.npu.npu_fusion_attention(
            *(query, key, value, query.size(1), "BNSD"),
            atten_mask=mask,
            scale=width**-0.5 if scale is None else scale,
            keep_prob=1 - dropout_p,
            next_tockens=0 if is_causal else FAR,
            sparse_mode=_LEFT_UP_CAUSAL if is_causal else 0,
        )[0]
        return result
    composed = torch.ops.aten.scaled_dot_product_attention.default._op_dk
    found: Tensor = composed(
        torch._C.DispatchKey.CompositeImplicitAutograd,
        *(query, key, value, attn_mask, dropout_p, is_causal),
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return found


def _is_flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether torch_npu calls `npu_fusion_attention`.

    As in op-plugin's ScaledDotProductAttentionKernelNpuOpApi.cpp, for chips from Ascend910B1 on.
    """
    sizes = query.shape, key.shape, value.shape
    if isinstance(getattr(query, "_local_tensor", None), Tensor):  # a DTensor, which has no rule for the operator
        return False
    if any(len(size) != 4 for size in sizes) or query.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return False
    if query.dtype is torch.float32 and any(size[-1] % 4 for size in sizes):
        return False
    heads, key_heads = query.size(1), key.size(1)
    return (
        (mask is None or mask.dtype is torch.bool)
        and max(heads, key_heads) <= 2048
        and query.size(3) <= 512
        and 0 < key_heads <= heads
        and heads % key_heads == 0
        and current_soc().number >= _ASCEND910B1
    )


INSTEAD: dict[str, Callable[..., Any]] = {
    "kl_div": kl_div,
    "scaled_dot_product_attention": refusing(read(torch.ops.aten.scaled_dot_product_attention.default), attention),
}
