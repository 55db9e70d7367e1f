"""Operators that PyTorch composes for every device, with arguments that the NPU does not take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpu2npu.emulator.device.dispatch.limits import refuse, refusing
from gpu2npu.emulator.device.dispatch.signature import read
from gpu2npu.emulator.device.dispatch.support_table import has_custom
from gpu2npu.emulator.npu_ops.attention_arithmetic import FAR
from gpu2npu.emulator.npu_ops.gradient import npu
from gpu2npu.emulator.soc import SOCS, current_soc
from gpu2npu.support.conditions import CallFacts

_ASCEND910B1 = SOCS["Ascend910B1"].number
_LEFT_UP_CAUSAL = 2  # sparse_mode
_composes_dropout = False


def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`torch.kl_div`, of a target that is not a logarithm. Raises LimitError for one that is."""
    refuse("torch.nn.functional.kl_div", CallFacts({"log_target": log_target}))
    composed = torch.ops.aten.kl_div.default._op_dk
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    found: Tensor = composed(key, self, target, reduction, log_target=log_target)
    return found


def compose_dropout() -> None:
    """Let attention that drops out be composed, so that it draws what it draws on other devices: `verify` compares."""
    global _composes_dropout
    _composes_dropout = True


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
    """`torch.nn.functional.scaled_dot_product_attention`: flash attention where torch_npu calls it, else composed.

    torch_npu's releases for PyTorch before 2.5 have no third version of it, and call the first. Each causal call makes
    its mask, as op-plugin's `convert_boolean_attn_mask` does, and the gradient keeps it.
    """
    is_composed = (attn_mask is not None and is_causal) or (dropout_p and _composes_dropout)
    if not is_composed and _is_flash(query, key, value, attn_mask):
        causal = torch.ones(2048, 2048, dtype=torch.bool, device=query.device).triu(1) if is_causal else None
        mask = causal if attn_mask is None else ~_expanded(attn_mask, query, key)
        flash = npu.npu_fusion_attention_v3 if has_custom("npu_fusion_attention_v3") else npu.npu_fusion_attention
        result: Tensor = flash(
            *(query, key, value, query.size(1), "BNSD"),
            atten_mask=mask,
            scale=query.size(-1) ** -0.5 if scale is None else scale,
            keep_prob=1 - dropout_p,
            next_tockens=0 if is_causal else FAR,
            inner_precise=2 if attn_mask is not None and query.size(2) > 1 else 0,
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


def _expanded(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Return the mask in a shape that the operator takes: (rows, columns), or (B or 1, N or 1, rows, columns)."""
    rows, columns = query.size(2), key.size(2)
    shape, lead = mask.shape[-2:], mask.shape[:-2]
    if shape == (rows, columns) and (not lead or lead in ((1, 1), (query.size(0), 1), query.shape[:2])):
        return mask
    return mask.expand(*query.shape[:2], rows, columns)


def _is_flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether torch_npu calls `npu_fusion_attention`.

    As in op-plugin's ScaledDotProductAttentionKernelNpuOpApi.cpp, for chips from Ascend910B1 on.
    """
    sizes = query.shape, key.shape, value.shape
    if isinstance(getattr(query, "_local_tensor", None), Tensor):  # a DTensor, which has no rule for the operator
        return False
    if any(len(size) != 4 for size in sizes) or query.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return False
    if not query.dtype == key.dtype == value.dtype:
        return False
    if query.size(0) != key.size(0) or key.shape[:3] != value.shape[:3] or query.size(3) != key.size(3):
        return False  # what broadcasts is composed
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


def _matmul(self: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul`; what is usual pays for a comparison alone."""
    if self.dim() > 6 or other.dim() > 6:
        return _refusing_matmul(self, other)  # type: ignore[no-any-return]
    return _compose_matmul(self, other)  # type: ignore[no-any-return]


def _composed(op: torch._ops.OpOverload) -> Callable[..., Any]:
    return partial(op._op_dk, torch._C.DispatchKey.CompositeImplicitAutograd)


def _checked(op: torch._ops.OpOverload) -> Callable[..., Any]:
    return refusing(read(op), _composed(op))


_compose_matmul = _composed(torch.ops.aten.matmul.default)
_refusing_matmul = _checked(torch.ops.aten.matmul.default)
INSTEAD: dict[str, Callable[..., Any]] = {
    "kl_div": kl_div,
    "matmul": _matmul,
    "repeat_interleave.self_int": _checked(torch.ops.aten.repeat_interleave.self_int),
    "repeat_interleave.self_Tensor": _checked(torch.ops.aten.repeat_interleave.self_Tensor),
    "scaled_dot_product_attention": refusing(read(torch.ops.aten.scaled_dot_product_attention.default), attention),
}
