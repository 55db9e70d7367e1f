"""Sampling images and volumes at arbitrary points (torch.nn.functional.grid_sample), and its gradient.

They are (N, C, *sizes), grids (N, *places, 2 or 3) with x before y before z in [-1, 1]. Linear and nearest sampling
move a point that is outside into the image; bicubic sampling moves each of its 16 neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from gpu2npu.emulator.kernels.nn.pool import scattered
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.kernels.sampling.upsample import cubic_filter

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
SHARPNESS = -0.75  # the free parameter of torch's cubic filters

# Whether a neighbour exists, its index in the image, its weight, and the weight's slopes by axis.
Neighbour = tuple[Array, Array, Array, list[Array]]


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


def _coordinates(grid: Array, size: int, padding: int, align_corners: bool) -> tuple[Array, Array]:
    """Positions in pixels within the image, and their derivative by the grid."""
    pixels, scale = _pixels(grid, size, align_corners)
    x, slope = _padded(pixels, size, padding, align_corners)
    return x.astype(grid.dtype, copy=False), (scale * slope).astype(grid.dtype, copy=False)


def _cubic(distance: Array) -> tuple[Array, Array]:
    """The weight of a pixel at x - `distance`, and the weight's slope by x."""
    a, d = SHARPNESS, np.abs(distance)
    near, far = (3 * (a + 2) * d - 2 * (a + 3)) * d, (3 * a * d - 10 * a) * d + 8 * a
    slope = np.where(d <= 1, near, far) * np.sign(distance)
    return cubic_filter(distance, a), slope


def _points(
    grid: Array, sizes: Sequence[int], interpolation: int, padding: int, align_corners: bool
) -> tuple[list[Array], list[Array]]:
    """Positions along each axis (N, 1, points), and their derivatives by the grid."""
    axes = len(sizes)
    flat = wide(grid).reshape(grid.shape[0], 1, prod(grid.shape[1:-1]), axes)
    where = ZEROS if interpolation == BICUBIC else padding
    found = [_coordinates(flat[..., axes - 1 - axis], size, where, align_corners) for axis, size in enumerate(sizes)]
    return [position for position, _ in found], [slope for _, slope in found]


def _index(at: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, Array]:
    """Return whether places are in the image, and their index in it."""
    inside = np.ones(at[0].shape, bool)
    index = np.zeros(at[0].shape)
    for place, size in zip(at, sizes, strict=True):
        inside &= (place >= 0) & (place < size)
        index = index * size + place
    return inside, np.where(inside, index, 0).astype(I64)


def _neighbours(
    points: Sequence[Array], sizes: Sequence[int], interpolation: int, padding: int, align_corners: bool
) -> Iterator[Neighbour]:
    """The pixels around points: one with weight 1, the corners for linear sampling, or 16 for bicubic sampling."""
    axes = []  # of each axis, the places along it with their weights and the weights' slopes
    for point, size in zip(points, sizes, strict=True):
        low = np.floor(point)
        if interpolation == NEAREST:
            axes.append([(np.rint(point), np.ones_like(point), np.zeros_like(point))])
        elif interpolation == BICUBIC:
            steps = [(low + step, _cubic(point - low - step)) for step in range(-1, 3)]
            axes.append([(_padded(place, size, padding, align_corners)[0], *pair) for place, pair in steps])
        else:
            part, one = point - low, np.ones_like(point)
            axes.append([(low, 1 - part, -one), (low + 1, part, one)])
    for chosen in product(*axes):
        at, weights, slopes = zip(*chosen, strict=True)
        by_axis = [
            reduce(np.multiply, (*weights[:axis], *weights[axis + 1 :]), each) for axis, each in enumerate(slopes)
        ]
        yield *_index(at, sizes), reduce(np.multiply, weights), by_axis


@kernel("aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    input: Array,  # noqa: A002
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Array:
    """The image at every grid point, (N, C, *places).

    Args:
        input: (N, C, *sizes).
        grid: (N, *places, number of sizes).
        interpolation_mode: 0 linear, 1 nearest, 2 bicubic.
        padding_mode: What is outside: 0 zeros, 1 the border, 2 the reflected image.
        align_corners: Whether -1 and 1 are the centres of the corner pixels, not their edges.
    """
    sizes = input.shape[2:]
    points, _ = _points(grid, sizes, interpolation_mode, padding_mode, align_corners)
    images = wide(input).reshape(*input.shape[:2], prod(sizes))
    out = np.zeros((*input.shape[:2], points[0].shape[2]), images.dtype)
    for inside, index, weight, _ in _neighbours(points, sizes, interpolation_mode, padding_mode, align_corners):
        values = np.take_along_axis(images, np.broadcast_to(index, out.shape), 2)
        out += values * (weight * inside).astype(out.dtype, copy=False)
    return rounded(out, input.dtype).reshape(*input.shape[:2], *grid.shape[1:-1])


@kernel("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def grid_sampler_backward(
    grad_output: Array,
    input: Array,  # noqa: A002
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None]:
    """Gradients for image and grid; the image's only where its mask is set."""
    sizes = input.shape[2:]
    image, planes = prod(sizes), prod(input.shape[:2])
    points, point_slopes = _points(grid, sizes, interpolation_mode, padding_mode, align_corners)
    grad = wide(grad_output).reshape(*input.shape[:2], points[0].shape[2])
    images = wide(input).reshape(*input.shape[:2], image)
    total = np.zeros((planes, image))
    by_axis = [np.zeros_like(point) for point in points]
    neighbours = _neighbours(points, sizes, interpolation_mode, padding_mode, align_corners)
    for inside, index, weight, slopes in neighbours:
        places = np.broadcast_to(index, grad.shape)
        if output_mask[0]:
            total += scattered(grad * (weight * inside), places, planes, image)
        if interpolation_mode != NEAREST:
            value = (np.take_along_axis(images, places, 2) * grad).sum(axis=1, keepdims=True) * inside
            for along, slope in zip(by_axis, slopes, strict=True):
                along += value * slope
    columns = [along * slope for along, slope in zip(by_axis, point_slopes, strict=True)]
    grad_grid = np.stack(columns[::-1], axis=-1).reshape(grid.shape)
    grad_input = total.reshape(input.shape).astype(input.dtype) if output_mask[0] else None
    return grad_input, rounded(grad_grid, grid.dtype)
