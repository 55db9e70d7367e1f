"""torch_npu's operators that are other operators in a row: PyTorch differentiates the parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

COMPOSITE: dict[str, Callable[..., Any]] = {}

npu = torch.ops.npu


def composite(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of tensors under the operators' names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            COMPOSITE[name] = function
        return function

    return register


@by_schema(composite, "npu_ciou")
def npu_ciou(a: Arguments) -> torch.Tensor:
    result: torch.Tensor = npu._npu_ciou(a.self, a.gtboxes, a.trans, a.is_cross, a.mode, a.atan_sub_flag)[0]
    return result


@composite("dropout_with_byte_mask")
def dropout_with_byte_mask(self: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not train or p == 0 or not self.numel():
        return self
    if p == 1:
        return self * torch.zeros_like(self)
    result: torch.Tensor = npu._dropout_with_byte_mask(self, p)[0]
    return result


@composite("npu_fused_attention_score")
def npu_fused_attention_score(*args: Any) -> torch.Tensor:
    result: torch.Tensor = npu.npu_fused_attention_score_fwd(*args)[0]
    return result


@by_schema(composite, "npu_conv2d", "npu_conv3d", "npu_convolution")
def npu_convolution(a: Arguments) -> torch.Tensor:
    return torch.convolution(
        a.input, a.weight, a.bias, a.stride, a.padding, a.dilation, False, [0] * (a.weight.dim() - 2), a.groups
    )


@by_schema(composite, "npu_conv_transpose2d", "npu_convolution_transpose")
def npu_convolution_transpose(a: Arguments) -> torch.Tensor:
    return torch.convolution(
        a.input, a.weight, a.bias, a.stride, a.padding, a.dilation, True, a.output_padding, a.groups
    )


@by_schema(composite, "npu_multi_head_attention")
def npu_multi_head_attention(a: Arguments) -> tuple[torch.Tensor, ...]:
    """Attention with its projections, of (batch * length, width), in the query's dtype: op-plugin's eight tensors."""
    dropout_mask = a.dropout_mask

    def linear(x: torch.Tensor, *parameters: torch.Tensor | None) -> torch.Tensor:
        return torch.nn.functional.linear(x, *(None if each is None else each.to(a.query.dtype) for each in parameters))  # type: ignore[arg-type]

    def heads(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, length: int, scale: float
    ) -> torch.Tensor:
        return (
            (linear(x, weight, bias) * scale)
            .view(-1, length, a.attn_head_num, a.attn_dim_per_head)
            .transpose(1, 2)
            .contiguous()
        )

    q = heads(a.query, a.query_weight, a.query_bias, a.tgt_len, a.attn_dim_per_head**-0.5)
    k, v = (
        heads(a.key, a.key_weight, a.key_bias, a.src_len, 1),
        heads(a.value, a.value_weight, a.value_bias, a.src_len, 1),
    )
    scores = torch.softmax(q @ k.transpose(-2, -1) + a.attn_mask, -1, torch.float32 if a.softmax_use_float else None)
    chosen = scores.to(a.query.dtype)
    if dropout_mask is None or not a.dropout_prob:
        retained, dropout_mask = npu._npu_dropout(chosen, a.dropout_prob)
    else:
        retained = npu.npu_dropout_do_mask(chosen, dropout_mask, a.dropout_prob)[0]
    context = (retained @ v).transpose(1, 2).reshape(a.query.shape[0], -1)
    return linear(context, a.out_proj_weight, a.out_proj_bias), dropout_mask, q, k, v, scores, retained, context
