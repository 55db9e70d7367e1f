"""torch_npu's operators that select, scatter, pad and reduce with 32-bit indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.promotion import F32, Array, Number, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema


@kernel("npu::npu_one_hot")
def npu_one_hot(
    self: Array, num_classes: int = -1, depth: int = 1, on_value: Number = 1, off_value: Number = 0
) -> Array:
    """float32 of shape (*self, depth): `on_value` at the index, `off_value` elsewhere and for indices out of range.

    torch_npu takes the deeper of `num_classes` and `depth`; `num_classes` is the axis in its documentation only.
    """
    count = num_classes if num_classes > 0 and depth == 1 else depth
    hot = self[..., None] == np.arange(count)
    return np.where(hot, np.asarray(on_value, F32), np.asarray(off_value, F32))


@kernel("npu::npu_pad")
def npu_pad(input: Array, paddings: Sequence[int]) -> Array:  # noqa: A002
    """Zeros around the input: before and after each dimension, first dimension first."""
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    return np.pad(input, pairs)


@kernel("npu::npu_slice")
def npu_slice(self: Array, offsets: Sequence[int], size: Sequence[int]) -> Array:
    """The block of `size` at `offsets`; a size of -1 is all the rest."""
    ends = (None if length == -1 else start + length for start, length in zip(offsets, size, strict=True))
    return self[tuple(slice(start, end) for start, end in zip(offsets, ends, strict=True))]


@by_schema(kernel, "npu::npu_indexing")
def npu_indexing(a: Arguments) -> Array:
    """self[begin:end:strides]; bit i of a mask: no begin, no end, an ellipsis, a new axis, or one index at place i."""
    parts: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(a.begin, a.end, a.strides, strict=True)):
        bit = 1 << i
        if a.ellipsis_mask & bit:
            parts.append(Ellipsis)
        elif a.new_axis_mask & bit:
            parts.append(None)
        elif a.shrink_axis_mask & bit:
            parts.append(start)
        else:
            parts.append(slice(None if a.begin_mask & bit else start, None if a.end_mask & bit else stop, step))
    return a.self[tuple(parts)]


def _extreme(self: Array, dim: int, keepdim: bool, largest: bool) -> tuple[Array, Array]:
    indices = np.expand_dims((np.argmax if largest else np.argmin)(self, axis=dim), dim)
    values = np.take_along_axis(self, indices, dim)
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return values, indices.astype(np.int32)


@kernel("npu::npu_max.dim")
def npu_max(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """`torch.max` along a dimension, with int32 indices."""
    return _extreme(self, dim, keepdim, largest=True)


@kernel("npu::npu_min.dim")
def npu_min(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """`torch.min` along a dimension, with int32 indices."""
    return _extreme(self, dim, keepdim, largest=False)


@kernel("npu::npu_max_backward", "npu::npu_min_backward")
def npu_extreme_backward(grad: Array, dim: int, indices: Array, sizes: Sequence[int], keepdim: bool) -> Array:
    """The gradient where the extremes are, 0 elsewhere."""
    if not keepdim:
        grad, indices = np.expand_dims(grad, dim), np.expand_dims(indices, dim)
    result = np.zeros(tuple(sizes), grad.dtype)
    np.put_along_axis(result, indices.astype(np.int64), grad, dim)
    return result


@kernel("npu::npu_broadcast")
def npu_broadcast(self: Array, size: Sequence[int]) -> Array:
    """self repeated to `size`."""
    return np.broadcast_to(self, tuple(size))


@kernel("npu::npu_sort_v2")
def npu_sort_v2(self: Array, dim: int = -1, descending: bool = False) -> Array:
    """The sorted values along a dimension, without indices."""
    values = np.sort(self, axis=dim)
    return np.flip(values, axis=dim) if descending else values


@kernel("npu::npu_masked_fill_range")
def npu_masked_fill_range(self: Array, start: Array, end: Array, value: Array, axis: int = -1) -> Array:
    """self with `value[i]` in the ranges start[k, i] up to end[k, i] of row i along the last dimension."""
    if axis not in (-1, self.ndim - 1):
        raise NotImplementedError("npu_masked_fill_range along another dimension than the last")
    result = self.copy()
    rows = result.reshape(-1, self.shape[-1])
    for first, last in zip(start, end, strict=True):
        for i, row in enumerate(rows):
            j = i % len(first)
            row[int(first[j]) : int(last[j])] = value[j % len(value)]
    return result


@kernel("npu::npu_random_choice_with_mask")
def npu_random_choice_with_mask(
    x: Array, count: int = 256, seed: int = 0, seed2: int = 0, *, generator: np.random.Generator
) -> tuple[Array, Array]:
    """`count` (0: all) of the places where x is true, in random order.

    Returns:
        (count, dimensions of x) int32 indices, 0 where there are too few; (count,) bool, which rows are real.
    """
    source = np.random.Generator(np.random.Philox([seed, seed2])) if seed or seed2 else generator
    places = np.argwhere(x).astype(np.int32)
    places = places[source.permutation(len(places))]
    count = count or len(places)
    indices = np.zeros((count, x.ndim), np.int32)
    indices[: len(places)] = places[:count]
    return indices, np.arange(count) < len(places)


@kernel("npu::scatter_update")
def scatter_update(self: Array, indices: Array, updates: Array, axis: int) -> Array:
    """self with `updates` written from place indices[b] of `axis` on, in each entry b of the first dimension."""
    result = self.copy()
    axis %= self.ndim
    length = updates.shape[axis]
    for b, start in enumerate(indices.reshape(indices.shape[0], -1)[:, 0]):
        place = [slice(0, size) for size in updates.shape[1:]]
        place[axis - 1] = slice(int(start), int(start) + length)
        result[b][tuple(place)] = updates[b]
    return result


@kernel("npu::npu_scatter_nd_update")
def npu_scatter_nd_update(self: Array, indices: Array, updates: Array) -> Array:
    """self with updates[i] at the place, or the slice, that the last dimension of `indices` names."""
    result = self.copy()
    places = indices.reshape(-1, indices.shape[-1])
    result[tuple(places.T)] = updates.reshape(len(places), *self.shape[indices.shape[-1] :])
    return result


@kernel("npu::npu_scatter")
def npu_scatter(self: Array, indices: Array, updates: Array, dim: int) -> Array:
    """self with `updates` at `indices` along a dimension, one index for each row."""
    result = self.copy()
    np.put_along_axis(result, indices.reshape(updates.shape).astype(np.int64), updates, dim)
    return result


@kernel("npu::npu_gather_sparse_index")
def npu_gather_sparse_index(input: Array, index: Array) -> Array:  # noqa: A002
    """input[index] along the first dimension."""
    return input[index]


@kernel("npu::npu_gather_sparse_index_backward")
def npu_gather_sparse_index_backward(grad: Array, self_sizes: Sequence[int], index: Array) -> Array:
    """The gradient added up in the rows that were read."""
    result = np.zeros(tuple(self_sizes), wide(grad).dtype)
    np.add.at(result, index, wide(grad))
    return rounded(result, grad.dtype)


@kernel("npu::npu_sign_bits_pack")
def npu_sign_bits_pack(self: Array, size: int) -> Array:
    """(size, bytes) uint8: a bit for each element, 1 where it is not negative, -1 padded; lowest bit first."""
    bits = np.packbits(np.pad(self.reshape(-1) >= 0, (0, -self.size % 8)), bitorder="little")
    return bits.reshape(size, -1)


@kernel("npu::npu_sign_bits_unpack")
def npu_sign_bits_unpack(input: Array, size: int, dtype: np.dtype) -> Array:  # noqa: A002
    """(size, 8 * bytes / size) of 1 and -1 from packed signs."""
    signs = np.unpackbits(input.reshape(-1), bitorder="little").astype(np.int8) * 2 - 1
    return rounded(signs.astype(F32), dtype).reshape(size, -1)


@kernel("npu::npu_top_k_top_p")
def npu_top_k_top_p(logits: Array, p: Array | None = None, k: Array | None = None) -> Array:
    """Logits (B, V) with -inf outside the k largest, and outside the fewest that hold the probability p; by row."""
    x = wide(logits).copy()
    order = np.argsort(x, axis=1, kind="stable")
    ranked = np.take_along_axis(x, order, 1)
    if k is not None:
        floor = np.take_along_axis(ranked, (x.shape[1] - k.astype(np.int64)).reshape(-1, 1), 1)
        ranked = np.where(ranked < floor, -np.inf, ranked)
    if p is not None:
        weights = np.exp(ranked - ranked.max(axis=1, keepdims=True))
        held = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        dropped = held <= 1 - wide(p).reshape(-1, 1)
        dropped[:, -1] = False
        ranked = np.where(dropped, -np.inf, ranked)
    np.put_along_axis(x, order, ranked.astype(x.dtype), 1)
    return rounded(x, logits.dtype)
