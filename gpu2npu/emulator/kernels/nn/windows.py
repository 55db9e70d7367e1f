"""Windows of images: views, copies of them (im2col), and their sums where they overlap (col2im)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

Sizes = Sequence[int]

IMAGES = 4  # dimensions of (N, C, H, W)


def per_dimension(sizes: Sizes, count: int) -> tuple[int, ...]:
    """A size for each of `count` dimensions, from one for all or one for each."""
    return tuple(sizes) * count if len(sizes) == 1 else tuple(sizes)


def counts(shape: Sizes, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> tuple[int, ...]:
    """The windows in each dimension."""
    return tuple(
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip(shape, padding, dilation, window, stride, strict=True)
    )


def padded(x: Array, padding: Sizes) -> Array:
    """The array (N, C, *spatial, ...) with zeros on both sides of every spatial dimension; uncopied where there are
    none."""
    if not any(padding):
        return x
    spatial, behind = x.shape[2 : 2 + len(padding)], x.shape[2 + len(padding) :]
    out = np.zeros((*x.shape[:2], *(s + 2 * p for s, p in zip(spatial, padding, strict=True)), *behind), x.dtype)
    inside = tuple(slice(pad, pad + size) for size, pad in zip(spatial, padding, strict=True))
    out[(slice(None),) * 2 + inside] = x
    return out


def windows(x: Array, window: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Array:
    """A view (N, C, *window, *out, ...) of the windows of a padded array (N, C, *spatial, ...)."""
    end = 2 + len(window)
    steps = x.strides[2:end]
    strides = (
        *x.strides[:2],
        *(step * d for step, d in zip(steps, dilation, strict=True)),
        *(step * s for step, s in zip(steps, stride, strict=True)),
        *x.strides[end:],
    )
    return as_strided(x, (*x.shape[:2], *window, *out, *x.shape[end:]), strides, writeable=False)


def is_pointwise(shape: Sizes, out: Sizes, window: Sizes, stride: Sizes, padding: Sizes) -> bool:
    """Return whether windows are the places themselves: output padding adds places that belong to no window."""
    return prod(window) == 1 and all(s == 1 for s in stride) and not any(padding) and tuple(shape) == tuple(out)


def unfolded(x: Array, groups: int, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes) -> Array:
    """Columns (N, groups, C / groups * window, out) of the windows; with samples last, out * N for the last."""
    n, c = x.shape[:2]
    pointwise = is_pointwise(x.shape[2 : 2 + len(window)], out, window, stride, padding)
    if not pointwise and x.ndim == IMAGES and len(window) == 2:
        columns = copied(x, (0, 1, 2, 3, 4, 5), window, stride, padding, dilation, out)
        return columns.reshape(n, groups, c // groups * prod(window), prod(out))
    view = x if pointwise else windows(padded(x, padding), window, stride, dilation, out)
    places = view.shape[2 if pointwise else 2 + len(window) :]
    return view.reshape(n, groups, c // groups * prod(window), prod(places))


def copied(x: Array, axes: Sizes, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes) -> Array:
    """The windows (N, C, *window, *out) of images with their axes in an order."""
    shape = (*x.shape[:2], *window, *out)
    columns = np.empty([shape[axis] for axis in axes], x.dtype)
    order = np.argsort(axes)
    geometry = (*stride, *padding, *dilation)
    if parallel.native is None or not parallel.native.unfolded(x, columns.transpose(order), geometry):
        columns[...] = windows(padded(x, padding), window, stride, dilation, out).transpose(axes)
    return columns


def folded(
    columns: Array, shape: Sizes, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes
) -> Array:
    """Columns (N, C, *window, *out, ...) added up where they came from: an array (N, C, *shape, ...)."""
    behind = columns.shape[2 + 2 * len(shape) :]
    if parallel.native is not None and columns.ndim == IMAGES + 2 and not behind:
        images = np.empty((*columns.shape[:2], *shape), columns.dtype)
        if parallel.native.folded(images, columns, (*stride, *padding, *dilation)):
            return images
    spatial = (size + 2 * pad for size, pad in zip(shape, padding, strict=True))
    result = np.zeros((*columns.shape[:2], *spatial, *behind), columns.dtype)
    both = (slice(None), slice(None))
    for tap in np.ndindex(*window):
        place = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s) for t, d, s, o in zip(tap, dilation, stride, out, strict=True)
        )
        result[both + place] += columns[both + tap]
    inside = tuple(slice(pad, pad + size) for size, pad in zip(shape, padding, strict=True))
    return result[both + inside]


@kernel("aten::im2col")
def im2col(self: Array, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Array:
    """(N, C, H, W) -> (N, C * kernel, windows), or unbatched; torch.nn.functional.unfold."""
    if self.ndim == 3:
        return im2col(self[None], kernel_size, dilation, padding, stride)[0]
    out = counts(self.shape[2:], kernel_size, stride, padding, dilation)
    return unfolded(self, 1, kernel_size, stride, padding, dilation, out)[:, 0].copy()


@kernel("aten::col2im")
def col2im(
    self: Array, output_size: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Array:
    """(N, C * kernel, windows) -> (N, C, *output_size), overlaps added; torch.nn.functional.fold."""
    if self.ndim == 2:
        return col2im(self[None], output_size, kernel_size, dilation, padding, stride)[0]
    out = counts(output_size, kernel_size, stride, padding, dilation)
    columns = wide(self).reshape(self.shape[0], self.shape[1] // prod(kernel_size), *kernel_size, *out)
    return rounded(
        np.ascontiguousarray(folded(columns, output_size, kernel_size, stride, padding, dilation, out)), self.dtype
    )
