"""Layers of detection and recognition networks, as torch_npu.contrib has them."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

__all__ = ["BiLSTM", "ChannelShuffle", "Focus", "LabelSmoothingCrossEntropy", "PSROIPool", "ROIAlign"]

npu = torch.ops.npu


class ChannelShuffle(nn.Module):
    """The channels of two tensors (N, C / 2, ...) in turn from each group; with `split_shuffle`, in two halves.

    Of more channels than `in_channels` those after them are lost, as in torch_npu.
    """

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        self.split_shuffle = split_shuffle
        self.group_len = in_channels // groups
        self.order = torch.arange(in_channels, dtype=torch.int32).view(groups, self.group_len).t().flatten()

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Any:
        """One tensor (N, C, ...), or two of half as many channels."""
        self.order = self.order.to(x1.device)
        mixed = torch.cat((x1, x2), dim=1).index_select(1, self.order)
        if not self.split_shuffle:
            return mixed
        return mixed[:, : self.group_len].contiguous(), mixed[:, self.group_len :].contiguous()


class LabelSmoothingCrossEntropy(nn.Module):
    """The mean cross entropy with labels smoothed over the other classes."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A float32 scalar of (N, C) logits and (N,) classes."""
        hot = npu.npu_one_hot(target.int(), -1, pred.shape[1], self.on_value, self.off_value)
        loss: torch.Tensor = npu.npu_softmax_cross_entropy_with_logits(pred, hot.to(pred.dtype))
        return loss.mean(dtype=torch.float32)


class _ROIAlign(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: torch.Tensor,
        rois: torch.Tensor,
        size: tuple[int, int],
        scale: float,
        ratio: int,
        aligned: bool,
    ) -> torch.Tensor:
        ctx.save_for_backward(rois)
        ctx.options = (tuple(features.shape), size, scale, ratio, 3 if aligned else 0)
        result: torch.Tensor = npu.npu_roi_align(features, rois, scale, *size, ratio, 3 if aligned else 0)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        shape, (height, width), scale, ratio, mode = ctx.options
        grad = npu.npu_roi_alignbk(grads[0], ctx.saved_tensors[0], list(shape), width, height, scale, ratio, mode)
        return grad, None, None, None, None, None


class ROIAlign(nn.Module):
    """Averages of bilinear samples in regions (R, 5) index x1 y1 x2 y2; `aligned` shifts by half a pixel."""

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = True) -> None:
        super().__init__()
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.spatial_scale, self.sampling_ratio, self.aligned = spatial_scale, sampling_ratio, aligned

    def forward(self, input_tensor: torch.Tensor, rois: torch.Tensor) -> Any:
        """(R, C, height, width)."""
        options = (self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)
        return _ROIAlign.apply(input_tensor, rois, *options)


class PSROIPool(nn.Module):
    """Position-sensitive pooling of regions.

    Raises:
        ValueError: Height, width and group size differ.
    """

    def __init__(
        self,
        pooled_height: int = 7,
        pooled_width: int = 7,
        spatial_scale: float = 1 / 16.0,
        group_size: int = 7,
        output_dim: int = 22,
    ) -> None:
        super().__init__()
        if not pooled_height == pooled_width == group_size:
            raise ValueError("only pooled_height == pooled_width == group_size supported.")
        self.group_size, self.spatial_scale, self.output_dim = group_size, spatial_scale, output_dim

    def forward(self, features: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        """(B * R, output_dim, group_size, group_size) of regions (B, 5, R)."""
        result: torch.Tensor = npu.npu_ps_roi_pooling(
            features, rois, self.spatial_scale, self.group_size, self.output_dim
        )
        return result


class Focus(nn.Module):
    """YOLOv5's first layer: four shifted halves of an image as channels, then convolution, norm and LeakyReLU."""

    def __init__(
        self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None, g: int = 1, act: bool = True
    ) -> None:
        super().__init__()
        convolution = nn.Conv2d(c1 * 4, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        self.conv = nn.Sequential(convolution, nn.BatchNorm2d(c2), nn.LeakyReLU(0.1) if act else nn.Identity())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, c2, H / 2, W / 2) of (N, c1, H, W), for a stride of 1."""
        parts = [x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)]
        result: torch.Tensor = self.conv(torch.cat(parts, 1))
        return result


class BiLSTM(nn.Module):
    """Two LSTMs, one of them over the reversed sequence. Deprecated in torch_npu."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        warnings.warn(
            "torch_npu.contrib.BiLSTM is deprecated. Please check the documentation for a replacement.",
            FutureWarning,
            stacklevel=2,
        )
        self.fw_rnn = nn.LSTM(input_size, hidden_size)
        self.bw_rnn = nn.LSTM(input_size, hidden_size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(length, batch, 2 * hidden_size) of (length, batch, input_size)."""
        forward, _ = self.fw_rnn(inputs)
        backward, _ = self.bw_rnn(inputs.flip(0))
        return torch.cat((forward, backward.flip(0)), 2)
