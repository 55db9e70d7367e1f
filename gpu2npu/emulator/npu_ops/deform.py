"""Modulated deformable convolution (Zhu et al. 2019) and its gradients, as torch_npu lays out its offsets.

The offsets (N, 3 * groups * kernel size, OH, OW) hold all horizontal shifts, then all vertical ones, then the masks;
within each, deformable group by group. Outside of the image everything is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema


@dataclass(frozen=True)
class _Samples:
    """The places that each output reads: positions (N, groups, KH * KW, OH, OW) in pixels, and the masks."""

    y: Array
    x: Array
    mask: Array
    kernel: tuple[int, int]

    def corners(self, height: int, width: int) -> list[tuple[Array, Array, Array, Array, Array]]:
        """Four neighbours: row and column within the image, weight, and the weight's slopes by y and by x."""
        y0, x0 = np.floor(self.y), np.floor(self.x)
        dy, dx = self.y - y0, self.x - x0
        found = []
        for low in (True, False):
            for left in (True, False):
                row, column = y0 + (0 if low else 1), x0 + (0 if left else 1)
                wy, wx = (1 - dy if low else dy), (1 - dx if left else dx)
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                rows = np.where(inside, row, 0).astype(np.int64)
                columns = np.where(inside, column, 0).astype(np.int64)
                slope_y, slope_x = (-wx if low else wx) * inside, (-wy if left else wy) * inside
                found.append((rows, columns, wy * wx * inside, slope_y, slope_x))
        return found


def _samples(
    offset: Array, weight: Array, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> _Samples:
    kh, kw = weight.shape[2:]
    n, _, oh, ow = offset.shape
    parts = wide(offset).reshape(n, 3, groups, kh * kw, oh, ow)
    i, j = (each.reshape(-1, 1, 1) for each in np.divmod(np.arange(kh * kw), kw))
    y = np.arange(oh).reshape(-1, 1) * stride[2] - padding[0] + i * dilation[2]
    x = np.arange(ow) * stride[3] - padding[2] + j * dilation[3]
    return _Samples(parts[:, 1] + y.astype(np.float32), parts[:, 0] + x.astype(np.float32), parts[:, 2], (kh, kw))


def _read(image: Array, samples: _Samples) -> Array:
    """The unmasked samples (N, groups, channels of a group, K, OH, OW) of an image (N, groups, channels, H, W)."""
    batch = np.arange(len(image)).reshape(-1, 1, 1, 1, 1)
    group = np.arange(image.shape[1]).reshape(1, -1, 1, 1, 1)
    total = 0
    for row, column, weight, _, _ in samples.corners(*image.shape[3:]):
        values = image[batch, group, :, row, column]  # (N, groups, K, OH, OW, channels)
        total = total + values * weight[..., None]
    return np.moveaxis(np.asarray(total), -1, 2)


def _grouped(image: Array, groups: int) -> Array:
    return image.reshape(len(image), groups, -1, *image.shape[2:])


def _columns(samples: Array, mask: Array, groups: int) -> Array:
    """Masked samples by convolution group: (N, groups, channels of a group * K, OH * OW)."""
    masked = samples * mask[:, :, None]
    n, _, _, size, oh, ow = masked.shape
    flat = masked.reshape(n, groups, -1, size, oh * ow)
    return flat.reshape(n, groups, -1, oh * ow)


@by_schema(kernel, "npu::npu_deformable_conv2d")
def npu_deformable_conv2d(a: Arguments) -> tuple[Array, Array]:
    """The convolution (N, C, OH, OW), and the masked samples (N, C in, OH * KH, OW * KW).

    `stride` and `dilation` are of four dimensions, `padding` top, bottom, left, right.
    """
    if not a.modulated:
        raise NotImplementedError("npu_deformable_conv2d without masks (modulated=False)")
    samples = _samples(a.offset, a.weight, a.stride, a.padding, a.dilation, a.deformable_groups)
    values = _read(_grouped(wide(a.input), a.deformable_groups), samples)
    columns = _columns(values, samples.mask, a.groups)
    kernels = wide(a.weight).reshape(a.groups, len(a.weight) // a.groups, -1)
    n, (oh, ow) = len(a.input), a.offset.shape[2:]
    y = np.matmul(kernels, columns).reshape(n, len(a.weight), oh, ow)
    if a.bias is not None:
        y = y + wide(a.bias)[:, None, None]
    kh, kw = samples.kernel
    spread = (values * samples.mask[:, :, None]).reshape(n, a.input.shape[1], kh, kw, oh, ow)
    spread = spread.transpose(0, 1, 4, 2, 5, 3).reshape(n, a.input.shape[1], oh * kh, ow * kw)
    return rounded(y, a.input.dtype), rounded(spread, a.input.dtype)


@by_schema(kernel, "npu::npu_deformable_conv2dbk")
def npu_deformable_conv2dbk(a: Arguments) -> tuple[Array, Array, Array, Array]:
    """Gradients for input, weight, offset (with the masks) and bias."""
    samples = _samples(a.offset, a.weight, a.stride, a.padding, a.dilation, a.deformable_groups)
    image = _grouped(wide(a.input), a.deformable_groups)
    values = _read(image, samples)
    n, (oh, ow) = len(a.input), a.offset.shape[2:]
    g = wide(a.grad_output).reshape(n, a.groups, -1, oh * ow)
    kernels = wide(a.weight).reshape(a.groups, len(a.weight) // a.groups, -1)
    grad_weight = np.matmul(g, _columns(values, samples.mask, a.groups).swapaxes(-1, -2)).sum(axis=0)
    flow = np.matmul(kernels.swapaxes(-1, -2), g).reshape(values.shape)  # for the masked samples
    grad_mask = (flow * values).sum(axis=2)
    flow = flow * samples.mask[:, :, None]
    grad_y, grad_x = np.zeros_like(samples.y), np.zeros_like(samples.x)
    batch = np.arange(n).reshape(-1, 1, 1, 1, 1)
    group = np.arange(a.deformable_groups).reshape(1, -1, 1, 1, 1)
    grad_image = np.zeros((n, a.deformable_groups, *image.shape[3:], image.shape[2]), np.float32)
    last = np.moveaxis(flow, 2, -1)  # (N, groups, K, OH, OW, channels)
    for row, column, share, slope_y, slope_x in samples.corners(*image.shape[3:]):
        along = (image[batch, group, :, row, column] * last).sum(axis=-1)
        grad_y += along * slope_y
        grad_x += along * slope_x
        np.add.at(grad_image, (batch, group, row, column), last * share[..., None])
    grad_offset = np.stack((grad_x, grad_y, grad_mask), axis=1).reshape(a.offset.shape)
    grad_input = np.moveaxis(grad_image, -1, 2).reshape(a.input.shape)
    return (
        rounded(grad_input, a.input.dtype),
        rounded(grad_weight.reshape(a.weight.shape), a.weight.dtype),
        rounded(grad_offset, a.offset.dtype),
        rounded(wide(a.grad_output).sum(axis=(0, 2, 3)), a.weight.dtype),
    )
