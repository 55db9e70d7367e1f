"""Sampling images at arbitrary points (torch.nn.functional.grid_sample), and its gradient.

Images are (N, C, H, W), grids (N, OH, OW, 2) with x before y in [-1, 1]. Bilinear and nearest sampling move a point
that is outside into the image; bicubic sampling moves each of its 16 neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from gpu2npu.emulator.kernels.nn.pool import scattered
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.kernels.sampling.upsample import cubic_filter

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
SHARPNESS = -0.75  # the free parameter of torch's cubic filters

# Whether a neighbour exists, its index in the plane, its weight, and the weight's slopes by x and y.
Neighbour = tuple[Array, Array, Array, Array, Array]


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


def _pixels(grid: Array, size: int, align_corners: bool) -> tuple[Array, Array]:
    """Positions in pixels, and their derivative by the grid."""
    x = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    return x, np.full_like(x, (size - 1) / 2 if align_corners else size / 2)


def _padded(x: Array, size: int, padding: int, align_corners: bool) -> tuple[Array, Array]:
    """Positions moved into the image as the padding asks, and their derivative by those before."""
    slope = np.ones_like(x)
    if padding == REFLECTION:
        x, slope = _reflected(x, *((0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)))
    if padding != ZEROS:
        slope = np.where((x <= 0) | (x >= size - 1), 0, slope)
        x = np.clip(x, 0, size - 1)
    return x, slope


def coordinates(grid: Array, size: int, padding: int, align_corners: bool) -> tuple[Array, Array]:
    """Positions in pixels within the image, and their derivative by the grid."""
    pixels, scale = _pixels(grid, size, align_corners)
    x, slope = _padded(pixels, size, padding, align_corners)
    return x.astype(grid.dtype, copy=False), (scale * slope).astype(grid.dtype, copy=False)


def _corners(x: Array, y: Array, height: int, width: int) -> Iterator[Neighbour]:
    """The four pixels around a point, for bilinear sampling."""
    left, top = np.floor(x), np.floor(y)
    for right in (0, 1):
        for below in (0, 1):
            column, row = left + right, top + below
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            index = np.where(inside, row * width + column, 0).astype(I64)
            along_x = x - left if right else 1 - (x - left)
            along_y = y - top if below else 1 - (y - top)
            yield inside, index, along_x * along_y, (2 * right - 1) * along_y, (2 * below - 1) * along_x


def _cubic(distance: Array) -> tuple[Array, Array]:
    """The weight of a pixel at x - `distance`, and the weight's slope by x."""
    a, d = SHARPNESS, np.abs(distance)
    near, far = (3 * (a + 2) * d - 2 * (a + 3)) * d, (3 * a * d - 10 * a) * d + 8 * a
    slope = np.where(d <= 1, near, far) * np.sign(distance)
    return cubic_filter(distance, a), slope


def _cubic_neighbours(x: Array, y: Array, height: int, width: int, padding: int, align: bool) -> Iterator[Neighbour]:
    """The 16 pixels around a point, for bicubic sampling."""
    left, top = np.floor(x), np.floor(y)
    for j in range(-1, 3):
        along_x, slope_x = _cubic(x - left - j)
        column, _ = _padded(left + j, width, padding, align)
        for i in range(-1, 3):
            along_y, slope_y = _cubic(y - top - i)
            row, _ = _padded(top + i, height, padding, align)
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            index = np.where(inside, row * width + column, 0).astype(I64)
            yield inside, index, along_x * along_y, slope_x * along_y, slope_y * along_x


def _points(
    image: Array, grid: Array, interpolation: int, padding: int, align_corners: bool
) -> tuple[Array, Array, Array, Array]:
    """x, y (N, 1, points) and their slopes."""
    flat = wide(grid).reshape(grid.shape[0], 1, prod(grid.shape[1:3]), 2)
    where = ZEROS if interpolation == BICUBIC else padding
    x, slope_x = coordinates(flat[..., 0], image.shape[3], where, align_corners)
    y, slope_y = coordinates(flat[..., 1], image.shape[2], where, align_corners)
    return x, y, slope_x, slope_y


def _neighbours(image: Array, x: Array, y: Array, interpolation: int, padding: int, align: bool) -> Iterator[Neighbour]:
    height, width = image.shape[2:]
    if interpolation == BICUBIC:
        return _cubic_neighbours(x, y, height, width, padding, align)
    return _corners(x, y, height, width)


def _planes(input: Array) -> Array:  # noqa: A002
    return wide(input).reshape(*input.shape[:2], prod(input.shape[2:]))


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
        interpolation_mode: 0 bilinear, 1 nearest, 2 bicubic.
        padding_mode: What is outside: 0 zeros, 1 the border, 2 the reflected image.
        align_corners: Whether -1 and 1 are the centres of the corner pixels, not their edges.
    """
    height, width = input.shape[2:]
    x, y, _, _ = _points(input, grid, interpolation_mode, padding_mode, align_corners)
    planes = _planes(input)
    if interpolation_mode == NEAREST:
        inside, index = _nearest(x, y, height, width)
        out = np.take_along_axis(planes, np.broadcast_to(index, (*planes.shape[:2], index.shape[2])), 2) * inside
    else:
        out = np.zeros((*planes.shape[:2], x.shape[2]), planes.dtype)
        neighbours = _neighbours(input, x, y, interpolation_mode, padding_mode, align_corners)
        for inside, index, weight, _, _ in neighbours:
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
    n, c, height, width = input.shape
    x, y, slope_x, slope_y = _points(input, grid, interpolation_mode, padding_mode, align_corners)
    grad = wide(grad_output).reshape(n, c, x.shape[2])
    planes = _planes(input)
    total = np.zeros((n * c, height * width))
    by_x, by_y = np.zeros_like(x), np.zeros_like(y)
    if interpolation_mode == NEAREST:
        inside, index = _nearest(x, y, height, width)
        total += scattered(grad * inside, np.broadcast_to(index, grad.shape), n * c, height * width)
    else:
        neighbours = _neighbours(input, x, y, interpolation_mode, padding_mode, align_corners)
        for inside, index, weight, weight_x, weight_y in neighbours:
            places = np.broadcast_to(index, grad.shape)
            if output_mask[0]:
                total += scattered(grad * (weight * inside), places, n * c, height * width)
            value = (np.take_along_axis(planes, places, 2) * grad).sum(axis=1, keepdims=True) * inside
            by_x += value * weight_x
            by_y += value * weight_y
    grad_grid = np.stack((by_x * slope_x, by_y * slope_y), axis=-1).reshape(grid.shape)
    grad_input = total.reshape(input.shape).astype(input.dtype) if output_mask[0] else None
    return grad_input, rounded(grad_grid, grid.dtype)
