"""Joining, repeating, moving and cutting, and the gradients of views."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import BOOL, Array, Number, cast, result_type
from gpu2npu.emulator.kernels.registry import kernel

Sizes = Sequence[int]


@kernel("aten::cat")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Joined along a dimension, in the promoted dtype; empty 1-D tensors are left out.

    Raises:
        RuntimeError: There is nothing to join, or sizes do not fit.
    """
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    dtype = result_type(*tensors)
    retained = [cast(each, dtype) for each in tensors if each.shape != (0,)]
    if not retained:
        return np.empty(0, dtype)
    try:
        return np.concatenate(retained, axis=dim)
    except ValueError as error:
        raise RuntimeError(f"Sizes of tensors must match except in dimension {dim}: {error}") from None


@kernel("aten::stack")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Joined along a new dimension, in the promoted dtype."""
    dtype = result_type(*tensors)
    return np.stack([cast(each, dtype) for each in tensors], axis=dim)


@kernel("aten::flip")
def flip(self: Array, dims: Sizes) -> Array:
    """Reversed along dimensions."""
    return np.flip(self, tuple(dims)).copy() if self.ndim else self.copy()


@kernel("aten::roll")
def roll(self: Array, shifts: Sizes | int, dims: Sizes | int = ()) -> Array:
    """Shifted along dimensions, or in row-major order without any; what leaves comes in at the other end."""
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    axes = (dims,) if isinstance(dims, int) else tuple(dims)
    if not axes or not self.ndim:
        return np.roll(self, moves[0])
    return np.roll(self, moves, axes)


@kernel("aten::repeat")
def repeat(self: Array, repeats: Sizes) -> Array:
    """Tiled; more repeats than dimensions add dimensions in front."""
    return np.tile(self, tuple(repeats)) if len(repeats) else self.copy()


_ROWS = 64  # of a triangle that are copied together


@functools.lru_cache(16)
def _tri(rows: int, columns: int, diagonal: int) -> Array:
    return np.tri(rows, columns, diagonal, dtype=BOOL)


def _triangle(self: Array, diagonal: int, lower: bool) -> Array:
    rows, columns = self.shape[-2:]
    out = np.zeros(self.shape, self.dtype)
    for first in range(0, rows, _ROWS):
        place = slice(first, first + _ROWS)
        start, stop = (min(max(at + diagonal, 0), columns) for at in (first, min(first + _ROWS, rows)))
        whole, edge = slice(start) if lower else slice(stop, None), slice(start, stop)
        out[..., place, whole] = self[..., place, whole]
        inside = _tri(min(_ROWS, rows - first), stop - start, diagonal + first - start - (not lower))
        np.copyto(out[..., place, edge], self[..., place, edge], where=inside if lower else ~inside)
    return out


@kernel("aten::tril")
def tril(self: Array, diagonal: int = 0) -> Array:
    """The lower triangle of each matrix, zeros above."""
    return _triangle(self, diagonal, True)


@kernel("aten::triu")
def triu(self: Array, diagonal: int = 0) -> Array:
    """The upper triangle of each matrix, zeros below."""
    return _triangle(self, diagonal, False)


def _at(dim: int, ndim: int, place: slice | int) -> tuple[slice | int, ...]:
    return (*(slice(None),) * (dim % ndim), place)


@kernel("aten::slice_backward")
def slice_backward(grad_output: Array, input_sizes: Sizes, dim: int, start: int, end: int, step: int) -> Array:
    """Zeros with the gradient in the slice."""
    out = np.zeros(tuple(input_sizes), grad_output.dtype)
    out[_at(dim, out.ndim, slice(start, end, step))] = grad_output
    return out


@kernel("aten::select_backward")
def select_backward(grad_output: Array, input_sizes: Sizes, dim: int, index: int) -> Array:
    """Zeros with the gradient at one index of a dimension."""
    out = np.zeros(tuple(input_sizes), grad_output.dtype)
    out[_at(dim, out.ndim, index)] = grad_output
    return out


@kernel("aten::constant_pad_nd")
def constant_pad(self: Array, pad: Sizes, value: Number = 0) -> Array:
    """Padded with a constant; `pad` gives (before, after) from the last dimension on; negative ones crop."""
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + [
        (pad[each], pad[each + 1]) for each in range(len(pad) - 2, -1, -2)
    ]
    shape = [size + before + after for size, (before, after) in zip(self.shape, pairs, strict=True)]
    if min(shape, default=0) < 0:
        raise RuntimeError(f"The input size {list(self.shape)}, plus padding {list(pad)}, is negative")
    out = np.full(tuple(shape), cast(value, self.dtype), self.dtype)
    source = tuple(
        slice(max(-before, 0), size - max(-after, 0)) for size, (before, after) in zip(self.shape, pairs, strict=True)
    )
    target = tuple(
        slice(max(before, 0), size - max(after, 0)) for size, (before, after) in zip(shape, pairs, strict=True)
    )
    out[target] = self[source]
    return out
