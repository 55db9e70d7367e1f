"""Embedding bags: sums, means and maxima of rows of a table, and their gradients. Halves sum in float32."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.indexing.index import rows_added
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import vector_norm
from gpu2npu.emulator.kernels.registry import kernel

SUM, MEAN, MAX = 0, 1, 2


def _bag_of_each(offsets: Array, count: int) -> Array:
    """The bag that each index is in; bags start at the offsets."""
    return np.searchsorted(offsets, np.arange(count), side="right") - 1


@kernel("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array, Array, Array, Array]:
    """Rows of weight (n, width) reduced by bag: (bags, width); then what the gradient needs.

    That is the bag of each index, the number of indices in each bag without padding, and in mode "max" the row that
    gave each maximum (bags, width).

    Raises:
        RuntimeError: An index is not a row's.
    """
    if indices.size and not (indices.min() >= 0 and indices.max() < weight.shape[0]):
        raise RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {indices.max()}"
        )
    starts = offsets[:-1] if include_last_offset else offsets
    bags = len(starts)
    bag = _bag_of_each(starts, len(indices))
    counted = indices != padding_idx
    size = np.bincount(bag[counted], minlength=bags) if bags else np.zeros(0, np.int64)
    rows = wide(weight)[indices]
    out = np.zeros((bags, weight.shape[1]), rows.dtype)
    largest = np.full((bags, weight.shape[1]), -1, np.int64) if mode == MAX else np.zeros(bags, np.int64)
    if mode == MAX:
        for position in np.flatnonzero(counted):
            at, row = bag[position], rows[position]
            better = (largest[at] < 0) | (row > out[at])
            out[at] = np.where(better, row, out[at])
            largest[at] = np.where(better, indices[position], largest[at])
        largest = np.maximum(largest, 0)
    else:
        if per_sample_weights is not None:
            rows = rows * wide(per_sample_weights)[:, None]
        if bags:
            out = rows_added(rows[counted], bag[counted], bags).astype(rows.dtype)
        if mode == MEAN:
            out = out / np.maximum(size, 1)[:, None].astype(out.dtype)
    kinds = np.promote_types(indices.dtype, offsets.dtype)
    return rounded(out, weight.dtype), bag.astype(kinds), size.astype(kinds), largest.astype(kinds)


@kernel("aten::_embedding_bag_backward")
def embedding_bag_backward(
    grad: Array,
    indices: Array,
    offsets: Array,
    offset2bag: Array,
    bag_size: Array,
    maximum_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Array | None,
    padding_idx: int = -1,
) -> Array:
    """The gradient of the table (num_weights, width).

    Raises:
        NotImplementedError: A sparse gradient is asked for.
    """
    if sparse:
        raise NotImplementedError("sparse gradients")
    bag = offset2bag if offset2bag.size == indices.size else _bag_of_each(offsets, len(indices))
    return embedding_bag_dense_backward(
        *(grad, indices, bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode),
        per_sample_weights=per_sample_weights,
        padding_idx=padding_idx,
    )


@kernel("aten::_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    grad: Array,
    indices: Array,
    offset2bag: Array,
    bag_size: Array,
    maximum_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Array | None,
    padding_idx: int = -1,
) -> Array:
    """The gradient of the table (num_weights, width)."""
    g = wide(grad)
    if mode == MAX:
        out = np.zeros((num_weights, g.shape[1]), g.dtype)
        filled = np.flatnonzero(bag_size)
        np.add.at(out, (maximum_indices[filled], np.arange(g.shape[1])), g[filled])
        return rounded(out, grad.dtype)
    counted = indices != padding_idx
    bags, rows = offset2bag[counted], indices[counted]
    each = g[bags]
    if mode == MEAN:
        each = each / bag_size[bags][:, None].astype(g.dtype)
    if per_sample_weights is not None:
        each = each * wide(per_sample_weights)[counted][:, None]
    if scale_grad_by_freq:
        each = each / np.bincount(rows, minlength=num_weights)[rows][:, None].astype(g.dtype)
    return rounded(rows_added(each, rows, num_weights), grad.dtype)


@kernel("aten::_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    grad: Array, weight: Array, indices: Array, offsets: Array, offset2bag: Array, mode: int, padding_idx: int = -1
) -> Array:
    """The gradient of each index's weight; 0 of padding."""
    bag = offset2bag if offset2bag.size == indices.size else _bag_of_each(offsets, len(indices))
    products = np.sum(wide(grad)[bag] * wide(weight)[indices], axis=1)
    return rounded(np.where(indices == padding_idx, products.dtype.type(0), products), grad.dtype)


@kernel("aten::embedding_renorm_")
def embedding_renorm(self: Array, indices: Array, max_norm: float, norm_type: float) -> None:
    """Scales the named rows of the table down to max_norm where theirs is larger."""
    rows = np.unique(indices)
    x = wide(self[rows])
    norms = vector_norm(x, norm_type, [1], True)
    limit = x.dtype.type(max_norm)
    self[rows] = np.where(norms > limit, x * (limit / (norms + x.dtype.type(1e-7))), x).astype(self.dtype)
