"""Fractional max pooling over two or three dimensions: windows begin where random samples put them.

The last window of each dimension ends with the image; the others step by (size - window) / (out - 1) on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gpu2npu.emulator.kernels.nn.pool import scattered
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel


def _starts(samples: Array, size: int, out: int, window: int) -> Array:
    """The first element of each window, (planes, out), from one sample in [0, 1) for each plane."""
    if out == 1:
        return np.full((len(samples), 1), size - window)
    step = samples.dtype.type(size - window) / samples.dtype.type(out - 1)
    places = np.arange(out - 1, dtype=samples.dtype) + samples[:, None]
    starts = (places * step).astype(I64) - (samples * step).astype(I64)[:, None]
    return np.concatenate((starts, np.full((len(samples), 1), size - window)), axis=1)


def _candidates(starts: Sequence[Array], kernel_size: Sequence[int], spatial: Sequence[int]) -> Array:
    """The indices of each window's elements in the flat image, (planes, cells, elements)."""
    planes, count = len(starts[0]), len(spatial)
    index = np.zeros((planes, *(1,) * (2 * count)), I64)
    for axis, (first, window, size) in enumerate(zip(starts, kernel_size, spatial, strict=True)):
        along = first[:, :, None] + np.arange(window)
        shape = [planes, *(1,) * (2 * count)]
        shape[1 + axis], shape[1 + count + axis] = along.shape[1:]
        index = index * size + along.reshape(shape)
    return index.reshape(planes, prod(each.shape[1] for each in starts), prod(kernel_size))


def _pooled(
    self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array, order: Sequence[int]
) -> tuple[Array, Array]:
    count = len(output_size)
    spatial = self.shape[-count:]
    planes = self.reshape(prod(self.shape[:-count]), prod(spatial))
    samples = random_samples.reshape(-1, count)[: len(planes)]  # of one image PyTorch reads the first samples alone
    sizes = zip(order, spatial, output_size, kernel_size, strict=True)
    starts = [_starts(samples[:, column], size, out, window) for column, size, out, window in sizes]
    index = _candidates(starts, kernel_size, spatial)
    flat = index.reshape(len(planes), prod(index.shape[1:]))
    values = np.take_along_axis(planes, flat, 1).reshape(index.shape)
    best = np.argmax(wide(values), axis=2)[..., None]
    shape = (*self.shape[:-count], *output_size)
    return tuple(np.take_along_axis(each, best, 2).reshape(shape) for each in (values, index))  # type: ignore[return-value]


@kernel("aten::fractional_max_pool2d")
def fractional_max_pool2d(
    self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array
) -> tuple[Array, Array]:
    """The maximum of each window of (N, C, H, W) or (C, H, W), and its index in the plane.

    Args:
        self: The images.
        kernel_size: Height and width of a window.
        output_size: Height and width of the result.
        random_samples: (N, C, 2), that of the width first.
    """
    return _pooled(self, kernel_size, output_size, random_samples, (1, 0))


@kernel("aten::fractional_max_pool3d")
def fractional_max_pool3d(
    self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array
) -> tuple[Array, Array]:
    """The maximum of each window of (N, C, T, H, W) or (C, T, H, W), and its index in the volume; samples (N, C, 3)."""
    return _pooled(self, kernel_size, output_size, random_samples, (0, 1, 2))


@kernel("aten::fractional_max_pool2d_backward", "aten::fractional_max_pool3d_backward")
def fractional_max_pool_backward(
    grad_output: Array, self: Array, kernel_size: Sequence[int], output_size: Sequence[int], indices: Array
) -> Array:
    """The gradients of the windows' maxima, added where they were found."""
    count = len(output_size)
    planes, size = prod(self.shape[:-count]), prod(self.shape[-count:])
    grad, places = (each.reshape(1, planes, prod(output_size)) for each in (wide(grad_output), indices))
    return rounded(scattered(grad, places, planes, size).reshape(self.shape), self.dtype)
