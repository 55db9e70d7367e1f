"""Sampling images at arbitrary points (torch.nn.functional.grid_sample), bilinear and nearest, and its gradient.

Images are (N, C, H, W), grids (N, OH, OW, 2) with x before y in [-1, 1]. Bicubic sampling is declined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpu2npu.emulator.kernels.nn.pool import scattered
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = 0, 1, 2


def _reflected(x: Array, low: float, high: float) -> tuple[Array, Array]:
    """Coordinates reflected at the bounds, and the sign of the slope there."""
    span = high - low
    if span <= 0:
        return np.zeros_like(x), np.zeros_like(x)
    distance = np.abs(x - low)
    flips = np.floor(distance / span)
    rest = distance - flips * span
    even = flips % 2 == 0
    slope = np.where(x < low, -1, 1) * np.where(even, 1, -1)
    return np.where(even, rest + low, span - rest + low), slope


def coordinates(grid: Array, size: int, padding: int, align_corners: bool) -> tuple[Array, Array]:
    """Positions in pixels, and their derivative by the grid."""
    x = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    slope = np.full_like(x, (size - 1) / 2 if align_corners else size / 2)
    if padding == REFLECTION:
        bounds = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        x, sign = _reflected(x, *bounds)
        slope = slope * sign
    if padding != ZEROS:
        slope = np.where((x <= 0) | (x >= size - 1), 0, slope)
        x = np.clip(x, 0, size - 1)
    return x.astype(grid.dtype, copy=False), slope.astype(grid.dtype, copy=False)


def _corners(x: Array, y: Array, height: int, width: int) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
    """For each neighbour: whether it exists, its index in the plane, its weight, and the weight's slopes by x and y."""
    left, top = np.floor(x), np.floor(y)
    for right in (0, 1):
        for below in (0, 1):
            column, row = left + right, top + below
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            index = np.where(inside, row * width + column, 0).astype(I64)
            along_x = x - left if right else 1 - (x - left)
            along_y = y - top if below else 1 - (y - top)
            yield inside, index, along_x * along_y, (2 * right - 1) * along_y, (2 * below - 1) * along_x


def _points(input: Array, grid: Array, padding: int, align_corners: bool) -> tuple[Array, Array, Array, Array]:  # noqa: A002
    """x, y (N, 1, points) and their slopes."""
    flat = wide(grid).reshape(grid.shape[0], 1, -1, 2)
    x, slope_x = coordinates(flat[..., 0], input.shape[3], padding, align_corners)
    y, slope_y = coordinates(flat[..., 1], input.shape[2], padding, align_corners)
    return x, y, slope_x, slope_y


def _check_mode(interpolation: int) -> None:
    if interpolation not in (BILINEAR, NEAREST):
        raise NotImplementedError("bicubic grid_sample")


def _planes(input: Array) -> Array:  # noqa: A002
    return wide(input).reshape(*input.shape[:2], -1)


def _nearest(x: Array, y: Array, height: int, width: int) -> tuple[Array, Array]:
    column, row = np.rint(x), np.rint(y)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    return inside, np.where(inside, row * width + column, 0).astype(I64)


@kernel("aten::grid_sampler_2d")
def grid_sampler_2d(
    input: Array,  # noqa: A002
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Array:
    """The image at every grid point, (N, C, OH, OW).

    Args:
        input: (N, C, H, W).
        grid: (N, OH, OW, 2).
        interpolation_mode: 0 bilinear, 1 nearest.
        padding_mode: What lies outside: 0 zeros, 1 the border, 2 the reflected image.
        align_corners: Whether -1 and 1 are the centres of the corner pixels, not their edges.
    """
    _check_mode(interpolation_mode)
    height, width = input.shape[2:]
    x, y, _, _ = _points(input, grid, padding_mode, align_corners)
    planes = _planes(input)
    if interpolation_mode == NEAREST:
        inside, index = _nearest(x, y, height, width)
        out = np.take_along_axis(planes, np.broadcast_to(index, (*planes.shape[:2], index.shape[2])), 2) * inside
    else:
        out = np.zeros((*planes.shape[:2], x.shape[2]), planes.dtype)
        for inside, index, weight, _, _ in _corners(x, y, height, width):
            values = np.take_along_axis(planes, np.broadcast_to(index, out.shape), 2)
            out += values * (weight * inside).astype(out.dtype, copy=False)
    return rounded(out, input.dtype).reshape(*input.shape[:2], *grid.shape[1:3])


@kernel("aten::grid_sampler_2d_backward")
def grid_sampler_2d_backward(
    grad_output: Array,
    input: Array,  # noqa: A002
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None]:
    """Gradients for image and grid; the image's only where its mask is set."""
    _check_mode(interpolation_mode)
    n, c, height, width = input.shape
    x, y, slope_x, slope_y = _points(input, grid, padding_mode, align_corners)
    grad = wide(grad_output).reshape(n, c, -1)
    planes = _planes(input)
    total = np.zeros((n * c, height * width))
    by_x, by_y = np.zeros_like(x), np.zeros_like(y)
    if interpolation_mode == NEAREST:
        inside, index = _nearest(x, y, height, width)
        total += scattered(grad * inside, np.broadcast_to(index, grad.shape), n * c, height * width)
    else:
        for inside, index, weight, weight_x, weight_y in _corners(x, y, height, width):
            places = np.broadcast_to(index, grad.shape)
            if output_mask[0]:
                total += scattered(grad * (weight * inside), places, n * c, height * width)
            value = (np.take_along_axis(planes, places, 2) * grad).sum(axis=1, keepdims=True) * inside
            by_x += value * weight_x
            by_y += value * weight_y
    grad_grid = np.stack((by_x * slope_x, by_y * slope_y), axis=-1).reshape(grid.shape)
    grad_input = total.reshape(input.shape).astype(input.dtype) if output_mask[0] else None
    return grad_input, rounded(grad_grid, grid.dtype)
