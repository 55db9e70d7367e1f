"""Resizing: nearest, linear and cubic interpolation of one to three dimensions, antialiased too, and their gradients.

Source coordinates are computed in float32, as torch computes them, so that the same elements are picked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import I64, Array, is_integral, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.kernels.sampling.separable import Matrix, applied, matrix_of, selection, taken

Sizes = Sequence[int]
Scales = Sequence[float | None]
Weights = Callable[[int, int, bool, float | None], Matrix]


def _scale(size: int, out: int, given: float | None) -> np.float32:
    return np.float32(1 / given) if given is not None and given > 0 else np.float32(size) / np.float32(out)


def _nearest(size: int, out: int, given: float | None, exact: bool) -> Array:
    at = np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0)
    return np.minimum(np.floor(at * _scale(size, out, given)).astype(I64), size - 1)


def _source(size: int, out: int, align_corners: bool, given: float | None) -> Array:
    """The source coordinate of every output element."""
    at = np.arange(out, dtype=np.float32)
    if align_corners:
        return at * (np.float32(size - 1) / np.float32(out - 1) if out > 1 else np.float32(0))
    return _scale(size, out, given) * (at + np.float32(0.5)) - np.float32(0.5)


def _linear(size: int, out: int, align_corners: bool, given: float | None) -> Matrix:
    source = np.maximum(_source(size, out, align_corners, given), np.float32(0))
    low = np.minimum(source.astype(I64), size - 1)
    share = source - low.astype(np.float32)
    columns = np.concatenate([low, np.minimum(low + 1, size - 1)])
    return matrix_of(np.tile(np.arange(out), 2), columns, np.concatenate([1 - share, share]), (out, size))


def cubic_filter(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _cubic(size: int, out: int, align_corners: bool, given: float | None) -> Matrix:
    source = _source(size, out, align_corners, given)
    low = np.floor(source)
    share = source - low
    taps = np.arange(-1, 3)[:, None]
    columns = np.clip(low.astype(I64) + taps, 0, size - 1)
    values = cubic_filter(taps - share, -0.75)
    return matrix_of(np.tile(np.arange(out), taps.size), columns.ravel(), values.ravel(), (out, size))


def _antialiased(kind: Callable[[Array], Array]) -> Weights:
    """Interpolation whose support widens when the image shrinks; 0 where no element is within it."""

    def weights(size: int, out: int, align_corners: bool, given: float | None) -> Array:
        aligned = (size - 1) / max(out - 1, 1)
        scale = aligned if align_corners else float(_scale(size, out, given))
        centers = scale * (np.arange(out)[:, None] + 0.5)
        values = kind((np.arange(size) - centers + 0.5) / max(scale, 1))
        sums = values.sum(axis=1, keepdims=True)
        return np.divide(values, sums, out=np.zeros_like(values), where=sums != 0).astype(np.float32)

    return weights


def _matrices(weights: Weights, sizes: Sizes, outs: Sizes, align_corners: bool, scales: Scales) -> list[Matrix]:
    return [weights(size, out, align_corners, each) for size, out, each in zip(sizes, outs, scales, strict=True)]


def _padded_scales(scales: Scales, count: int) -> Scales:
    return scales if scales else (None,) * count


def _interpolation(name: str, weights: Weights) -> None:
    @kernel(f"aten::{name}")
    def forward(self: Array, output_size: Sizes, align_corners: bool, *scales: float | None, **named: float) -> Array:
        """(N, C, *spatial) interpolated to the output size; images of integers are declined."""
        if is_integral(self.dtype):
            raise NotImplementedError(f"{name} of {self.dtype}")
        factors = _padded_scales(scales or tuple(named.values()), len(output_size))
        matrices = _matrices(weights, self.shape[2:], output_size, align_corners, factors)
        return rounded(applied(wide(self), matrices), self.dtype)

    @kernel(f"aten::{name}_backward")
    def backward(
        grad_output: Array,
        output_size: Sizes,
        input_size: Sizes,
        align_corners: bool,
        *scales: float | None,
        **named: float,
    ) -> Array:
        """The gradient, in the input's size."""
        factors = _padded_scales(scales or tuple(named.values()), len(output_size))
        matrices = _matrices(weights, input_size[2:], output_size, align_corners, factors)
        return rounded(applied(wide(grad_output), [each.T for each in matrices]), grad_output.dtype)


def _nearest_neighbour(name: str, exact: bool) -> None:
    @kernel(f"aten::{name}")
    def forward(self: Array, output_size: Sizes, *scales: float | None, **named: float) -> Array:
        """(N, C, *spatial), each output element the nearest input element."""
        factors = _padded_scales(scales or tuple(named.values()), len(output_size))
        each = zip(self.shape[2:], output_size, factors, strict=True)
        return taken(self, [_nearest(size, out, factor, exact) for size, out, factor in each])

    @kernel(f"aten::{name}_backward")
    def backward(
        grad_output: Array, output_size: Sizes, input_size: Sizes, *scales: float | None, **named: float
    ) -> Array:
        """The gradient, in the input's size."""
        factors = _padded_scales(scales or tuple(named.values()), len(output_size))
        each = zip(input_size[2:], output_size, factors, strict=True)
        matrices = [selection(_nearest(size, out, factor, exact), size).T for size, out, factor in each]
        return rounded(applied(wide(grad_output), matrices), grad_output.dtype)


for _count in (1, 2, 3):
    _nearest_neighbour(f"upsample_nearest{_count}d", False)
    _nearest_neighbour(f"_upsample_nearest_exact{_count}d", True)
_interpolation("upsample_linear1d", _linear)
_interpolation("upsample_bilinear2d", _linear)
_interpolation("upsample_trilinear3d", _linear)
_interpolation("upsample_bicubic2d", _cubic)
_interpolation("_upsample_bilinear2d_aa", _antialiased(lambda x: np.maximum(1 - np.abs(x), 0)))
_interpolation("_upsample_bicubic2d_aa", _antialiased(lambda x: cubic_filter(x, -0.5)))
