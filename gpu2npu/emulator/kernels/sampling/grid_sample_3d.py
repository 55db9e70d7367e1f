"""Sampling volumes at arbitrary points (grid_sample of five dimensions), trilinear and nearest, and its gradient.

Volumes are (N, C, D, H, W), grids (N, OD, OH, OW, 3) with x before y before z in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from gpu2npu.emulator.kernels.nn.pool import scattered
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.kernels.sampling.grid_sample import NEAREST, coordinates


def _points(grid: Array, sizes: Sequence[int], padding: int, align_corners: bool) -> tuple[list[Array], list[Array]]:
    """Positions along D, H and W (N, 1, points), and their derivatives by the grid."""
    flat = wide(grid).reshape(grid.shape[0], 1, prod(grid.shape[1:-1]), 3)
    found = [coordinates(flat[..., 2 - axis], size, padding, align_corners) for axis, size in enumerate(sizes)]
    return [position for position, _ in found], [slope for _, slope in found]


def _index(at: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, Array]:
    """Return whether places are in the volume, and their index in it."""
    inside = np.ones(at[0].shape, bool)
    index = np.zeros(at[0].shape)
    for place, size in zip(at, sizes, strict=True):
        inside &= (place >= 0) & (place < size)
        index = index * size + place
    return inside, np.where(inside, index, 0).astype(I64)


def _corners(points: Sequence[Array], sizes: Sequence[int]) -> Iterator[tuple[Array, Array, Array, list[Array]]]:
    """For each of the eight neighbours: whether it exists, its index, its weight, and the weight's slopes by axis."""
    low = [np.floor(point) for point in points]
    for bits in product((0, 1), repeat=3):
        inside, index = _index([floor + bit for floor, bit in zip(low, bits, strict=True)], sizes)
        parts = [p - f if bit else 1 - (p - f) for p, f, bit in zip(points, low, bits, strict=True)]
        slopes = [
            (2 * bit - 1) * np.multiply(*(part for other, part in enumerate(parts) if other != axis))
            for axis, bit in enumerate(bits)
        ]
        yield inside, index, parts[0] * parts[1] * parts[2], slopes


@kernel("aten::grid_sampler_3d")
def grid_sampler_3d(
    input: Array,  # noqa: A002
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Array:
    """The volume at every grid point, (N, C, OD, OH, OW); modes as grid_sampler_2d's."""
    sizes = input.shape[2:]
    points, _ = _points(grid, sizes, padding_mode, align_corners)
    volumes = wide(input).reshape(*input.shape[:2], prod(sizes))
    shape = (*volumes.shape[:2], points[0].shape[2])
    if interpolation_mode == NEAREST:
        inside, index = _index([np.rint(point) for point in points], sizes)
        out = np.take_along_axis(volumes, np.broadcast_to(index, shape), 2) * inside
    else:
        out = np.zeros(shape, volumes.dtype)
        for inside, index, weight, _ in _corners(points, sizes):
            values = np.take_along_axis(volumes, np.broadcast_to(index, shape), 2)
            out += values * (weight * inside).astype(out.dtype, copy=False)
    return rounded(out, input.dtype).reshape(*input.shape[:2], *grid.shape[1:-1])


@kernel("aten::grid_sampler_3d_backward")
def grid_sampler_3d_backward(
    grad_output: Array,
    input: Array,  # noqa: A002
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None]:
    """Gradients for volume and grid; the volume's only where its mask is set."""
    sizes = input.shape[2:]
    volume, planes = prod(sizes), prod(input.shape[:2])
    points, point_slopes = _points(grid, sizes, padding_mode, align_corners)
    grad = wide(grad_output).reshape(*input.shape[:2], points[0].shape[2])
    volumes = wide(input).reshape(*input.shape[:2], volume)
    total = np.zeros((planes, volume))
    by_axis = [np.zeros_like(point) for point in points]
    if interpolation_mode == NEAREST:
        inside, index = _index([np.rint(point) for point in points], sizes)
        total += scattered(grad * inside, np.broadcast_to(index, grad.shape), planes, volume)
    else:
        for inside, index, weight, slopes in _corners(points, sizes):
            places = np.broadcast_to(index, grad.shape)
            if output_mask[0]:
                total += scattered(grad * (weight * inside), places, planes, volume)
            value = (np.take_along_axis(volumes, places, 2) * grad).sum(axis=1, keepdims=True) * inside
            for along, slope in zip(by_axis, slopes, strict=True):
                along += value * slope
    columns = [along * slope for along, slope in zip(by_axis, point_slopes, strict=True)]
    grad_grid = np.stack(columns[::-1], axis=-1).reshape(grid.shape)
    grad_input = total.reshape(input.shape).astype(input.dtype) if output_mask[0] else None
    return grad_input, rounded(grad_grid, grid.dtype)
