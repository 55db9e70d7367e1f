"""Reading and writing elements by index tensors, by masks, and by position.

Indices may be negative where torch allows it. NumPy's rule for where the indexed dimensions go is torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from gpu2npu.emulator.kernels.promotion import BOOL, I32, I64, U8, Array, Number, cast, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

Indices = Sequence[Array | None]


def subscript(indices: Indices) -> tuple[Array | slice | EllipsisType, ...]:
    """The index tensors as a NumPy subscript: None takes the whole dimension, uint8 is a mask."""
    found: list[Array | slice | EllipsisType] = [
        slice(None) if each is None else each.astype(BOOL) if each.dtype == U8 else each for each in indices
    ]
    return (*found, Ellipsis)


@kernel("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def index(self: Array, indices: Indices) -> Array:
    """self[indices], with index tensors that broadcast, masks, or None for a whole dimension.

    Raises:
        IndexError: An index is out of range, or a mask does not fit.
    """
    found = self[subscript(indices)]
    return found if found.base is None else np.array(found)


@kernel("aten::index_put", "aten::_unsafe_index_put")
def index_put(self: Array, indices: Indices, values: Array, accumulate: bool = False) -> Array:
    """A copy of self with self[indices] set to, or increased by, values."""
    if not accumulate:
        out = self.copy()
        out[subscript(indices)] = cast(values, out.dtype)
        return out
    out = wide(self)
    out = out.copy() if out is self else out
    np.add.at(out, subscript(indices), cast(values, out.dtype))  # type: ignore[arg-type]
    return rounded(out, self.dtype)


@kernel("aten::_index_put_impl")
def index_put_impl(
    self: Array, indices: Indices, values: Array, accumulate: bool = False, unsafe: bool = False
) -> Array:
    """index_put."""
    return index_put(self, indices, values, accumulate)


@kernel("aten::index_select")
def index_select(self: Array, dim: int, index: Array) -> Array:
    """Slices of self along a dimension, in the index's order."""
    if not self.ndim:
        return np.array(self.reshape(1)[index.reshape(-1)][0] if index.size else self)
    return np.take(self, index.reshape(-1), axis=dim)


def _line(dim: int, index: Array) -> tuple[slice | Array, ...]:
    return (*(slice(None),) * dim, index.reshape(-1))


@kernel("aten::index_add")
def index_add(self: Array, dim: int, index: Array, source: Array, *, alpha: Number = 1) -> Array:
    """A copy of self with alpha * source added to the slices that the index names; they may repeat."""
    out = np.array(wide(self))
    target = out if out.ndim else out.reshape(1)
    addend = wide(source) if source.ndim else wide(source).reshape(1)
    if alpha != 1:
        addend = addend * cast(alpha, addend.dtype)
    np.add.at(target, _line(dim % target.ndim, index), addend)  # type: ignore[arg-type]
    return rounded(out, self.dtype)


@kernel("aten::index_copy")
def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    """A copy of self with the slices that the index names replaced by those of source."""
    out = self.copy()
    target = out if out.ndim else out.reshape(1)
    target[_line(dim % target.ndim, index)] = source if source.ndim else source.reshape(1)
    return out


@kernel("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(self: Array, dim: int, index: Array, value: Number | Array) -> Array:
    """A copy of self with the slices that the index names filled with the value."""
    out = self.copy()
    target = out if out.ndim else out.reshape(1)
    target[_line(dim % target.ndim, index)] = cast(value, self.dtype)
    return out


@kernel("aten::masked_select")
def masked_select(self: Array, mask: Array) -> Array:
    """The elements where the mask is set, in row-major order; mask and self broadcast."""
    x, chosen = np.broadcast_arrays(self, cast(mask, BOOL))
    return x[chosen]


@kernel("aten::masked_scatter")
def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    """self with the elements where the mask is set replaced by source's elements, in order.

    Raises:
        RuntimeError: mask is not bool, or source has too few elements.
    """
    if mask.dtype != BOOL:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    x, chosen = np.broadcast_arrays(self, cast(mask, BOOL))
    out = x.copy()
    count = int(np.count_nonzero(chosen))
    if count > source.size:
        raise RuntimeError(f"masked_scatter: {count} elements are to be filled, but source has {source.size}")
    out[chosen] = source.reshape(-1)[:count]
    return out


@kernel("aten::nonzero")
def nonzero(self: Array) -> Array:
    """The indices of nonzero elements, (count, ndim), in row-major order."""
    if not self.ndim:
        return np.zeros((int(bool(self)), 0), I64)
    return np.argwhere(cast(self, BOOL)).astype(I64, copy=False)


@kernel("aten::take")
def take(self: Array, index: Array) -> Array:
    """Elements by their position in row-major order, in the index's shape."""
    return np.asarray(np.take(self, index))


@kernel("aten::put")
def put(self: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """A copy of self with elements, by position in row-major order, replaced or increased."""
    out = np.array(wide(self), order="C")
    flat = out.reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), cast(source, out.dtype).reshape(-1))
    else:
        flat[index.reshape(-1)] = cast(source, out.dtype).reshape(-1)
    return rounded(out, self.dtype)


@kernel("aten::embedding")
def embedding(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Array:
    """Rows of the weight: (*indices, width).

    Raises:
        RuntimeError: The weight is not a matrix, or the indices are not integers.
        IndexError: An index is out of range.
    """
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype not in (I64, I32):
        raise RuntimeError(f"Expected tensor for argument 'indices' to have Long or Int, but got {indices.dtype}")
    if indices.size and (indices.min() < 0 or indices.max() >= weight.shape[0]):
        raise IndexError("index out of range in self")
    return np.take(weight, indices, axis=0)


def rows_added(rows: Array, indices: Array, count: int) -> Array:
    """Rows summed by index, (count, width) float32 at least: sorted by index, then added run by run."""
    out = np.zeros((count, rows.shape[1]), rows.dtype)
    if indices.size:
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        out[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return out


@kernel("aten::embedding_dense_backward")
def embedding_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The gradient for the weight, (num_weights, width): none for padding_idx; averaged where scaled by frequency."""
    flat = indices.reshape(-1)
    rows = wide(grad_output).reshape(flat.size, grad_output.shape[-1])
    if padding_idx >= 0:
        retained = flat != padding_idx
        flat, rows = flat[retained], rows[retained]
    out = rows_added(rows, flat, num_weights)
    if scale_grad_by_freq:
        counts = np.bincount(flat, minlength=num_weights)
        out /= np.maximum(counts, 1).astype(out.dtype)[:, None]
    return rounded(out, grad_output.dtype)


@kernel("aten::one_hot")
def one_hot(self: Array, num_classes: int = -1) -> Array:
    """1 at the index in a new last dimension, 0 elsewhere and for indices out of range, in the dtype of `self`.

    Unlike PyTorch's it takes int32, and no index is an error: aclnnOneHot in CANN's documentation, and
    OneHotKernelNpuOpApi.cpp in op-plugin.
    """
    count = num_classes if num_classes >= 0 else max(int(self.max()) + 1, 1)
    return (self[..., None] == np.arange(count)).astype(self.dtype)
