"""Max and average pooling over windows, of two and three dimensions, and their gradients.

Arrays are (N, C, *spatial) or (C, *spatial). Indices of maxima count within one channel's plane, as torch's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.nn.windows import per_dimension
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

Sizes = Sequence[int]


def _pooled_size(size: int, window: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    span = size + 2 * padding - dilation * (window - 1) - 1
    pooled = -(-span // stride) + 1 if ceil_mode else span // stride + 1
    # The last window must start inside the input or its left padding.
    if ceil_mode and (pooled - 1) * stride >= size + padding:
        pooled -= 1
    if pooled < 1:
        raise RuntimeError(
            f"Given input size {size}, kernel {window} and padding {padding}: the output would be too small"
        )
    return pooled


def _batched(x: Array, count: int) -> Array:
    """(N, C, *spatial) merged to (N * C, *spatial)."""
    return x.reshape(prod(x.shape[: x.ndim - count]), *x.shape[x.ndim - count :])


def _inside(padding: Sizes, spatial: Sizes) -> tuple[slice, ...]:
    return (slice(None), *(slice(p, p + size) for p, size in zip(padding, spatial, strict=True)))


def _framed(x: Array, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes, fill: float) -> Array:
    """The planes with `fill` around them, wide enough for every window."""
    ends = [(o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(out, stride, dilation, window, strict=True)]
    shape = [max(end, size + p) for end, size, p in zip(ends, x.shape[1:], padding, strict=True)]
    if shape == list(x.shape[1:]):
        return x
    frame = np.full((x.shape[0], *shape), fill, x.dtype)
    frame[_inside(padding, x.shape[1:])] = x
    return frame


def _tap(tap: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> tuple[slice, ...]:
    """Return the slices of the framed planes that hold the window element `tap` of every window."""
    return (
        slice(None),
        *(slice(t * d, t * d + s * (o - 1) + 1, s) for t, d, s, o in zip(tap, dilation, stride, out, strict=True)),
    )


def _along(values: Array, axis: int, ndim: int) -> Array:
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _plane_position(coordinates: Sequence[Array], spatial: Sizes) -> Array:
    """The index within a plane of every combination of coordinates."""
    position = np.zeros((1,) * len(spatial), I64)
    for axis, (at, size) in enumerate(zip(coordinates, spatial, strict=True)):
        position = position * size + _along(at, axis, len(spatial))
    return position


def _offset(coordinates: Sizes, spatial: Sizes) -> int:
    """The distance within a plane that coordinates stand for."""
    offset = 0
    for at, size in zip(coordinates, spatial, strict=True):
        offset = offset * size + at
    return offset


def _check_padding(padding: Sizes, window: Sizes, dilation: Sizes) -> None:
    for pad, size, spread in zip(padding, window, dilation, strict=True):
        if not 0 <= pad <= ((size - 1) * spread + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={size} and "
                f"dilation={spread}"
            )


def _max_pool(self: Array, count: int, *settings: Any) -> tuple[Array, Array]:
    """The maxima and their indices, some samples at a time.

    Raises:
        RuntimeError: The padding is more than half a window.
    """
    _check_padding(*(per_dimension(settings[which], count) for which in (2, 0, 3)))
    if self.size < 2 * parallel.BLOCK:
        return _max_pool_of(self, count, *settings)
    parts = parallel.run(lambda part: _max_pool_of(self[part], count, *settings), parallel.blocks(len(self), self.size))
    best, indices = zip(*parts, strict=True)
    return np.concatenate(best), np.concatenate(indices)


def _max_pool_of(
    self: Array, count: int, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> tuple[Array, Array]:
    window = per_dimension(kernel_size, count)
    stride = per_dimension(stride, count) if stride else window
    padding, dilation = per_dimension(padding, count), per_dimension(dilation, count)
    spatial = self.shape[self.ndim - count :]
    out = tuple(_pooled_size(*each, ceil_mode) for each in zip(spatial, window, stride, padding, dilation, strict=True))
    x = _batched(wide(self), count)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    frame = _framed(x, window, stride, padding, dilation, out, lowest)
    starts = [np.arange(o) * s - p for o, s, p in zip(out, stride, padding, strict=True)]
    may_be_nan = x.dtype.kind == "f" and not np.isfinite(np.sum(x))
    taps = list(np.ndindex(*window))
    best = np.array(frame[_tap(taps[0], stride, dilation, out)])
    # The number of the tap that won: a later one overrides an earlier one, so that a maximum records it.
    number = np.zeros(best.shape, np.uint8 if len(taps) <= 256 else np.uint32)
    for each, tap in enumerate(taps[1:], 1):
        candidate = frame[_tap(tap, stride, dilation, out)]
        better = candidate > best
        if may_be_nan:
            better |= np.isnan(candidate)
        np.maximum(best, candidate, out=best)
        np.maximum(number, better.view(np.uint8) * number.dtype.type(each), out=number)
    offsets = [_offset([t * d for t, d in zip(tap, dilation, strict=True)], spatial) for tap in taps]
    indices = np.array(offsets, I64)[number] + _plane_position(starts, spatial)
    if any(padding):
        # A window in which nothing exceeds the padding names its first element inside the plane.
        first = [np.where(start < 0, start % d, start) for start, d in zip(starts, dilation, strict=True)]
        np.copyto(indices, _plane_position(first, spatial), where=best == lowest)
    shape = (*self.shape[: self.ndim - count], *out)
    return rounded(best, self.dtype).reshape(shape), indices.reshape(shape)


def scattered(values: Array, indices: Array, planes: int, plane: int) -> Array:
    """Values added up at indices within their plane: (planes, *) -> (planes, plane)."""
    if not planes:
        return np.zeros((planes, plane), wide(values).dtype)
    weights = wide(values).ravel()
    return np.bincount(_places(indices, planes, plane), weights, planes * plane).reshape(planes, plane)


def _places(indices: Array, planes: int, plane: int) -> Array:
    """Indices within their plane as those within all planes."""
    return (indices.reshape(planes, -1) + np.arange(planes, dtype=I64)[:, None] * plane).ravel()


def _max_backward(grad_output: Array, self: Array, indices: Array, count: int, apart: bool) -> Array:
    """The gradient added up at the indices; windows that are apart have nothing to add."""
    planes, plane = prod(self.shape[: self.ndim - count]), prod(self.shape[self.ndim - count :])
    if apart and planes:
        out = np.zeros(planes * plane, grad_output.dtype)
        out[_places(indices, planes, plane)] = grad_output.ravel()
        return out.reshape(self.shape)
    grad = scattered(grad_output, indices, planes, plane)
    return grad.reshape(self.shape).astype(grad_output.dtype)


def _apart(kernel_size: Sizes, stride: Sizes, dilation: Sizes, count: int) -> bool:
    """Return whether no two windows share an element."""
    window, dilation = per_dimension(kernel_size, count), per_dimension(dilation, count)
    steps = per_dimension(stride, count) if stride else window
    return all(s >= d * (k - 1) + 1 for s, d, k in zip(steps, dilation, window, strict=True))


def _max_pooling(count: int) -> None:
    """Register max pooling of `count` dimensions."""

    @kernel(f"aten::max_pool{count}d_with_indices")
    def forward(
        self: Array,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        dilation: Sizes = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Array, Array]:
        """The maximum of each window and its index; NaN wins."""
        return _max_pool(self, count, kernel_size, stride, padding, dilation, ceil_mode)

    @kernel(f"aten::max_pool{count}d_with_indices_backward")
    def backward(
        grad_output: Array,
        self: Array,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
        indices: Array,
    ) -> Array:
        """The gradient of each window's maximum, added up where the maxima came from."""
        return _max_backward(grad_output, self, indices, count, _apart(kernel_size, stride, dilation, count))


_max_pooling(2)
_max_pooling(3)


@kernel("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(self: Array, indices: Array, output_size: Sizes, stride: Sizes = (), padding: Sizes = ()) -> Array:
    """Zeros (N, C, *output_size) with self's elements at their indices within the plane, or within the volume.

    Raises:
        RuntimeError: An index is outside of it.
    """
    lead, cells, plane = self.shape[: -len(output_size)], prod(self.shape[-len(output_size) :]), prod(output_size)
    wrong = indices[(indices < 0) | (indices >= plane)]
    if wrong.size:
        volume = "x".join(map(str, output_size))
        raise RuntimeError(f"Found an invalid max index: {wrong[0]} (output volumes are of size {volume})")
    out = np.zeros((prod(lead), plane), self.dtype)
    np.put_along_axis(out, indices.reshape(len(out), cells), self.reshape(len(out), cells), axis=1)
    return out.reshape(*lead, *output_size)


def _divisors(
    spatial: Sizes,
    window: Sizes,
    stride: Sizes,
    padding: Sizes,
    out: Sizes,
    count_include_pad: bool,
    override: int | None,
) -> Array:
    """By what the sum of each window is divided."""
    if override:
        return np.full((1,) * len(out), override, np.float32)
    counts = np.ones((1,) * len(out), np.float32)
    for axis, (size, k, s, p, o) in enumerate(zip(spatial, window, stride, padding, out, strict=True)):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, size + p)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        counts = counts * _along((end - start).astype(np.float32), axis, len(out))
    return counts


def _average_geometry(
    self: Array, count: int, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool
) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:
    window = per_dimension(kernel_size, count)
    stride = per_dimension(stride, count) if stride else window
    padding = per_dimension(padding, count)
    spatial = self.shape[self.ndim - count :]
    out = tuple(
        _pooled_size(size, k, s, p, 1, ceil_mode)
        for size, k, s, p in zip(spatial, window, stride, padding, strict=True)
    )
    return window, stride, padding, spatial, out


def _count(kernel_name: str) -> int:
    return 3 if "3d" in kernel_name else 2


def _average_pool(name: str) -> None:
    count = _count(name)

    @kernel(f"aten::{name}")
    def forward(
        self: Array,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        """The mean of each window; padding counts as zeros, or not at all."""
        window, stride, padding, spatial, out = _average_geometry(self, count, kernel_size, stride, padding, ceil_mode)
        x = _batched(wide(self), count)
        ones = (1,) * count
        frame = _framed(x, window, stride, padding, ones, out, 0)
        y = np.zeros((x.shape[0], *out), x.dtype)
        for tap in np.ndindex(*window):
            y += frame[_tap(tap, stride, ones, out)]
        divisor = _divisors(spatial, window, stride, padding, out, count_include_pad, divisor_override)
        y = np.trunc(y / divisor) if x.dtype.kind in "iu" else y / divisor.astype(x.dtype)
        return rounded(y, self.dtype).reshape(*self.shape[: self.ndim - count], *out)

    @kernel(f"aten::{name}_backward")
    def backward(
        grad_output: Array,
        self: Array,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Array:
        """The gradient of each window's mean, spread over the window."""
        window, stride, padding, spatial, out = _average_geometry(self, count, kernel_size, stride, padding, ceil_mode)
        grad = _batched(wide(grad_output), count)
        divisor = _divisors(spatial, window, stride, padding, out, count_include_pad, divisor_override)
        share = grad / divisor.astype(grad.dtype)
        ones = (1,) * count
        planes = np.zeros((grad.shape[0], *spatial), grad.dtype)
        frame = _framed(planes, window, stride, padding, ones, out, 0)
        for tap in np.ndindex(*window):
            frame[_tap(tap, stride, ones, out)] += share
        inside = frame[_inside(padding, spatial)]
        return rounded(np.ascontiguousarray(inside), grad_output.dtype).reshape(self.shape)


_average_pool("avg_pool2d")
_average_pool("avg_pool3d")
