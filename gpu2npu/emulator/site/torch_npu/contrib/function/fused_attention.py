"""BERT's attention over the fused operators of Ascend 910A: matrices in FRACTAL_NZ, biases in ND. Deprecated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from gpu2npu.emulator.npu_ops.memory import FRACTAL_NZ, ND

__all__ = ["npu_fused_attention", "npu_fused_attention_with_layernorm"]

npu = torch.ops.npu
_HEAD = 64
_WIDTHS = (768, 1024)
_FORMATS = [FRACTAL_NZ] * 5 + [ND] * 3


def _is_format_matched(input_list: Sequence[torch.Tensor]) -> bool:
    return [npu.get_npu_format(each) for each in input_list] == _FORMATS


def _check_compatibility_once(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, *others: torch.Tensor | None
) -> None:
    """Check kernels of query, key, value, their biases, gamma and beta; after one call that was right, nothing.

    Raises:
        RuntimeError: The formats or shapes are not those of the operators.
    """
    if _checked:
        return
    *weights, gamma, beta = (*others, None, None)[:8]
    tensors = [hidden_states, attention_mask, *(each for each in weights if each is not None)]
    wrong = {
        "formats of the tensors": not _is_format_matched(tensors),
        "formats of gamma or beta": any(x is not None and npu.get_npu_format(x) != ND for x in (gamma, beta)),
        "shape of hidden_states": hidden_states.dim() != 2
        or hidden_states.shape[0] % 32 != 0
        or hidden_states.shape[1] not in _WIDTHS,
        "shape of attention_mask": attention_mask.dim() != 4
        or attention_mask.shape[1] != 1
        or attention_mask.shape[2] != attention_mask.shape[3],
        "shapes of the kernels": any(each.shape[0] not in _WIDTHS for each in tensors[2:5]),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise RuntimeError(f"npu_fused_attention: the {what} do not fit the fused operators")
    _checked.append(True)


_checked: list[bool] = []


def npu_fused_attention(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    query_kernel: torch.Tensor,
    key_kernel: torch.Tensor,
    value_kernel: torch.Tensor,
    query_bias: torch.Tensor,
    key_bias: torch.Tensor,
    value_bias: torch.Tensor,
    scale: float = 1,
    keep_prob: float = 0,
) -> torch.Tensor:
    """The context (B * S, width) of hidden states (B * S, width) and an additive mask (B, 1, S, S)."""
    kernels, biases = (query_kernel, key_kernel, value_kernel), (query_bias, key_bias, value_bias)
    _check_compatibility_once(hidden_states, attention_mask, *kernels, *biases)
    return _attention(hidden_states, attention_mask, kernels, biases, scale, keep_prob)


def _attention(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    kernels: Sequence[torch.Tensor],
    biases: Sequence[torch.Tensor],
    scale: float = 1,
    keep_prob: float = 0,
) -> torch.Tensor:
    batch = attention_mask.shape[0]
    layers = [
        torch.addmm(bias, hidden_states, kernel).view(batch, -1, kernel.shape[1] // _HEAD, _HEAD).transpose(1, 2)
        for kernel, bias in zip(kernels, biases, strict=True)
    ]
    query, key, value = (each.contiguous() for each in layers)
    result: torch.Tensor = npu.npu_fused_attention_score_fwd(query, key, value, attention_mask, scale, keep_prob)[0]
    return result


def npu_fused_attention_with_layernorm(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The context and the normalised hidden states; three kernels, three biases, gamma, beta, scale, keep_prob."""
    warnings.warn(
        "torch_npu.contrib.npu_fused_attention_with_layernorm is deprecated. Please use torch_npu.npu_fusion_attention "
        "and torch.nn.LayerNorm as a replacement.",
        FutureWarning,
        stacklevel=2,
    )
    weights, gamma, beta = others[:6], others[6], others[7]
    _check_compatibility_once(hidden_states, attention_mask, *weights, gamma, beta)
    normal = torch.nn.functional.layer_norm(hidden_states, hidden_states.shape[1:], gamma, beta)
    return _attention(normal, attention_mask, weights[:3], weights[3:], *others[8:]), normal
