"""Backward passes that torch_npu has as operators of its own: of convolutions and of losses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gpu2npu.emulator.npu_ops.composite import composite

Gradients = tuple[Tensor, Tensor, Tensor]


@composite("npu_conv2d_backward", "npu_conv3d_backward", "npu_convolution_backward")
def npu_convolution_backward(
    input: Tensor,  # noqa: A002
    grad: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> Gradients:
    none = [0] * (weight.dim() - 2)
    sizes = [weight.shape[0]]
    return torch.ops.aten.convolution_backward(  # type: ignore[no-any-return]
        grad, input, weight, sizes, stride, padding, dilation, False, none, groups, mask
    )


@composite("npu_conv_transpose2d_backward", "npu_conv_transpose3d_backward", "npu_convolution_transpose_backward")
def npu_convolution_transpose_backward(
    input: Tensor,  # noqa: A002
    grad: Tensor,
    weight: Tensor,
    padding: Sequence[int],
    output_padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> Gradients:
    sizes = [weight.shape[1] * groups]
    return torch.ops.aten.convolution_backward(  # type: ignore[no-any-return]
        grad, input, weight, sizes, stride, padding, dilation, True, output_padding, groups, mask
    )


def _reduced(gradient: Tensor, reduction: int, elements: int) -> Tensor:
    return gradient / elements if reduction == 1 else gradient


@composite("l1_loss_backward")
def l1_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    return _reduced(grad_output * torch.sign(self - target), reduction, self.numel())


@composite("kl_div_backward")
def kl_div_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    weight = target.exp() if log_target else target
    return _reduced(-grad_output * weight, reduction, self.numel()).expand_as(self)


@composite("npu_binary_cross_entropy_with_logits_backward")
def npu_binary_cross_entropy_with_logits_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight_opt: Tensor | None,
    pos_weight_opt: Tensor | None,
    reduction: int,
) -> Tensor:
    probability = torch.sigmoid(self)
    if pos_weight_opt is None:
        slope = probability - target
    else:
        positive = pos_weight_opt * target
        slope = (positive + 1 - target) * probability - positive
    if weight_opt is not None:
        slope = slope * weight_opt
    return _reduced(grad_output * slope, reduction, self.numel())
