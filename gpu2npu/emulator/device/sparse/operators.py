"""The operators on sparse tensors that torch_npu computes itself: `sparse` in the tables of its wheels.

Sources: SparseCoalesceKernelOpApi.cpp, SparseAddKernelOpApi.cpp and SparseTensorUtils.cpp in op-plugin
(op_plugin/ops/opapi/sparse). As there, each is made of operators on the dense tensors of indices and values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import torch

from gpu2npu.emulator.device.dispatch.limits import facts, refuse
from gpu2npu.emulator.registration import Function, registering
from gpu2npu.support.conditions import CallFacts

# By overload; each takes what the overload takes.
OWN: dict[str, Function] = {}
_own = registering(OWN)

_HALVES = (torch.float16, torch.bfloat16)


@_own("_coalesce")
def coalesce(tensor: torch.Tensor) -> torch.Tensor:
    """The sparse tensor with one value at each index, in the order of the indices; 16-bit floats add up in float32.

    Raises LimitError where the chip has no such operator, and there are indices to compare.
    """
    indices, values = tensor._indices(), tensor._values()
    if indices.shape[1] < 2:
        return tensor.clone()._coalesced_(True)
    refuse("aten::_coalesce", CallFacts({"self": facts(tensor)}))
    sizes = tensor.shape[: tensor.sparse_dim()]
    unique, group = torch.unique(_flattened(indices, sizes), sorted=True, return_inverse=True)
    wide = values.float() if values.dtype in _HALVES else values
    sums = wide.new_zeros((unique.shape[0], *values.shape[1:])).index_add_(0, group, wide)
    return _sparse(_unflattened(unique, sizes), sums.to(values.dtype), tensor.shape)._coalesced_(True)


@_own("add.out")
def add_out(tensor: torch.Tensor, other: torch.Tensor | float, *, alpha: float = 1, out: torch.Tensor) -> torch.Tensor:
    """A sparse tensor added to a dense or to a sparse one of the same shape; sparse ones are not coalesced.

    Raises:
        RuntimeError: A dense tensor is added to a sparse one, the shapes differ, or `out` has no room for the dtype.
    """
    if not _is_sparse(other):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    common = torch.result_type(tensor, other)
    if not torch.can_cast(common, out.dtype):
        raise RuntimeError(f"Can't convert result type {common} to output {out.dtype}")
    if tensor.shape != other.shape:
        raise RuntimeError(_unequal_shapes(tensor, other))
    return (_add_sparse if tensor.is_sparse else _add_to_dense)(tensor, other, alpha, out, common)


def _unequal_shapes(tensor: torch.Tensor, other: torch.Tensor) -> str:
    shapes = list(tensor.shape), list(other.shape)
    if tensor.is_sparse:
        return f"add: expected 'self' and 'other' to have same size, but {shapes[0]} != {shapes[1]}"
    return (
        f"add: expected 'self' and 'other' to have same size, but self has size {shapes[0]} while other has size "
        f"{shapes[1]} (FYI: dense-sparse addition does not currently support broadcasting)"
    )


def _add_to_dense(
    dense: torch.Tensor, sparse: torch.Tensor, alpha: float, out: torch.Tensor, common: torch.dtype
) -> torch.Tensor:
    in_place = out is dense and out.dtype is common
    if in_place and not out.is_contiguous() and sparse._nnz():
        raise RuntimeError("add: NPU dense-sparse addition with a non-contiguous output tensor does not work")
    total = out if in_place else dense.to(common, copy=True, memory_format=torch.contiguous_format)
    values = sparse._values().to(common)
    if values.numel():
        rows = math.prod(dense.shape[: sparse.sparse_dim()])
        at = _flattened(sparse._indices(), dense.shape[: sparse.sparse_dim()])
        total.view(rows, -1).index_add_(0, at, values.reshape(sparse._nnz(), -1), alpha=alpha)
    if not in_place:
        out.resize_(dense.shape).copy_(total)
    return out


def _add_sparse(
    tensor: torch.Tensor, other: torch.Tensor, alpha: float, out: torch.Tensor, common: torch.dtype
) -> torch.Tensor:
    if tensor._nnz() and other._nnz() and tensor.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same density, but 'self' has {tensor.sparse_dim()} sparse "
            f"dimensions while 'other' has {other.sparse_dim()} sparse dimensions"
        )
    if not other._nnz():
        total = tensor
    elif not tensor._nnz():
        total = _with_values(other, other._values() * alpha)
    else:
        indices = torch.cat((tensor._indices(), other._indices()), 1)
        values = torch.cat((tensor._values().to(common), other._values().to(common) * alpha))
        total = _sparse(indices, values, tensor.shape)
        if total._nnz() > total.numel():
            total = total.coalesce()._coalesced_(False)
    return _stored(total, out)


@_own("mul.out")
def mul_out(tensor: torch.Tensor | float, other: torch.Tensor | float, *, out: torch.Tensor) -> torch.Tensor:
    """The product, computed dense: it is coalesced and holds no zeros.

    Raises:
        RuntimeError: `out` is dense, or both factors are.
    """
    if not out.is_sparse:
        raise RuntimeError("mul: expected 'out' to be a sparse tensor")
    given = (tensor, other)
    sparse_dim = next((each.sparse_dim() for each in given if _is_sparse(each)), None)
    if sparse_dim is None:
        raise RuntimeError("mul: expected 'self' or 'other' to be a sparse tensor")
    dense = [each.to_dense() if _is_sparse(each) else each for each in given]
    return _stored(torch.mul(*dense).to_sparse(sparse_dim), out)  # type: ignore[arg-type]


@_own("max")
def maximum(tensor: torch.Tensor) -> torch.Tensor:
    """The largest value of the tensor, a dense scalar."""
    return tensor.to_dense().max()


def masked(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The values of a sparse tensor at the indices of another, 0 where it has none; those of one index add up."""
    tensor, sizes = tensor.coalesce(), tensor.shape[: tensor.sparse_dim()]
    wanted = _flattened(mask._indices(), sizes)
    values = tensor.values().new_zeros((wanted.shape[0], *tensor.shape[tensor.sparse_dim() :]))
    if tensor._nnz():
        there = _flattened(tensor.indices(), sizes)
        at = torch.searchsorted(there, wanted).clamp_max(there.shape[0] - 1)
        found = there[at] == wanted
        values[found] = tensor.values()[at[found]]
    return _with_values(mask, values)


def _flattened(indices: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """The position of each column of `indices` in a contiguous tensor of `sizes`: int64 of shape (columns,)."""
    flat = indices.new_zeros(indices.shape[1])
    for row, size in zip(indices, sizes, strict=True):
        flat = flat * size + row
    return flat


def _unflattened(flat: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    rows = []
    for size in reversed(sizes):
        rows.append(flat % size)
        flat = torch.div(flat, size, rounding_mode="floor")
    return torch.stack(rows[::-1]) if rows else flat.new_zeros((0, flat.shape[0]))


def _sparse(indices: torch.Tensor, values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, tuple(shape), check_invariants=False)


def _with_values(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return _sparse(tensor._indices(), values, tensor.shape)._coalesced_(tensor.is_coalesced())


def _stored(result: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.copy_sparse_to_sparse_.default(out, result)  # type: ignore[no-any-return]


def _is_sparse(value: torch.Tensor | float) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.is_sparse
