"""torch_npu's operators that are other operators in a row: PyTorch differentiates the parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

COMPOSITE: dict[str, Callable[..., Any]] = {}

npu = torch.ops.npu


def composite(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of tensors under the operators' names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            COMPOSITE[name] = function
        return function

    return register


@composite("npu_ciou")
def npu_ciou(
    self: torch.Tensor,
    gtboxes: torch.Tensor,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
    atan_sub_flag: bool = False,
) -> torch.Tensor:
    result: torch.Tensor = npu._npu_ciou(self, gtboxes, trans, is_cross, mode, atan_sub_flag)[0]
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


@composite("npu_conv2d", "npu_conv3d", "npu_convolution")
def npu_convolution(
    input: torch.Tensor,  # noqa: A002
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    return torch.convolution(input, weight, bias, stride, padding, dilation, False, [0] * (weight.dim() - 2), groups)


@composite("npu_conv_transpose2d", "npu_convolution_transpose")
def npu_convolution_transpose(
    input: torch.Tensor,  # noqa: A002
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    padding: Sequence[int],
    output_padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    return torch.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


@composite("npu_multi_head_attention")
def npu_multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    value_weight: torch.Tensor,
    attn_mask: torch.Tensor,
    out_proj_weight: torch.Tensor,
    query_bias: torch.Tensor | None,
    key_bias: torch.Tensor | None,
    value_bias: torch.Tensor | None,
    out_proj_bias: torch.Tensor | None,
    dropout_mask: torch.Tensor | None,
    attn_head_num: int,
    attn_dim_per_head: int,
    src_len: int,
    tgt_len: int,
    dropout_prob: float,
    softmax_use_float: bool,
) -> tuple[torch.Tensor, ...]:
    """Attention with its projections, of (batch * length, width), in the query's dtype: op-plugin's eight tensors."""

    def linear(x: torch.Tensor, *parameters: torch.Tensor | None) -> torch.Tensor:
        return torch.nn.functional.linear(x, *(None if each is None else each.to(query.dtype) for each in parameters))  # type: ignore[arg-type]

    def heads(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, length: int, scale: float
    ) -> torch.Tensor:
        return (
            (linear(x, weight, bias) * scale)
            .view(-1, length, attn_head_num, attn_dim_per_head)
            .transpose(1, 2)
            .contiguous()
        )

    q = heads(query, query_weight, query_bias, tgt_len, attn_dim_per_head**-0.5)
    k, v = heads(key, key_weight, key_bias, src_len, 1), heads(value, value_weight, value_bias, src_len, 1)
    scores = torch.softmax(q @ k.transpose(-2, -1) + attn_mask, -1, torch.float32 if softmax_use_float else None)
    chosen = scores.to(query.dtype)
    if dropout_mask is None or not dropout_prob:
        retained, dropout_mask = npu._npu_dropout(chosen, dropout_prob)
    else:
        retained = npu.npu_dropout_do_mask(chosen, dropout_mask, dropout_prob)[0]
    context = (retained @ v).transpose(1, 2).reshape(query.shape[0], -1)
    return linear(context, out_proj_weight, out_proj_bias), dropout_mask, q, k, v, scores, retained, context
