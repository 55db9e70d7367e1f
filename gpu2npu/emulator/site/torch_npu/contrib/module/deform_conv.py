"""Modulated deformable convolution as a layer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

__all__ = ["DCNv2", "ModulatedDeformConv"]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


class ModulatedDeformConv(nn.Module):
    """Deformable convolution with masks; float32.

    With `pack`, shifts and masks come from a convolution of the layer's own, which begins with zeros. Otherwise the
    input is a tuple: the features, shifts (N, 2 * groups * kernel size, OH, OW) of y and x in turn, and masks.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = True,
        pack: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _pair(kernel_size)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups, self.deformable_groups, self.pack = groups, deformable_groups, pack
        size = self.kernel_size[0] * self.kernel_size[1]
        bound = 1 / math.sqrt(in_channels * size)
        self.split_num = 2 * deformable_groups * size
        if pack:
            channels = 3 * deformable_groups * size
            self.conv_offset = nn.Conv2d(in_channels, channels, self.kernel_size, stride, padding)
            nn.init.zeros_(self.conv_offset.weight)
            if self.conv_offset.bias is not None:
                nn.init.zeros_(self.conv_offset.bias)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        nn.init.uniform_(self.weight, -bound, bound)  # drawn after those of the convolution, as in torch_npu
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(self, x: Any) -> torch.Tensor:
        """(N, out_channels, OH, OW)."""
        if self.pack:
            out = self.conv_offset(x)
            offset, mask = out[:, : self.split_num], out[:, self.split_num :].sigmoid()
        else:
            x, offset, mask = x
        every = torch.cat((offset[:, 1::2], offset[:, ::2], mask), 1).float()
        strides, dilations = [1, 1, self.stride, self.stride], [1, 1, self.dilation, self.dilation]
        result: torch.Tensor = torch.ops.npu.npu_deformable_conv2d(
            x.float(),
            self.weight,
            every,
            self.bias,
            list(self.kernel_size),
            strides,
            [self.padding] * 4,
            dilations,
            self.groups,
            self.deformable_groups,
        )[0]
        return result


DCNv2 = ModulatedDeformConv
