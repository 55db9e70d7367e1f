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
