"""Sparse tensors on a played `cuda`: PyTorch's sparse tensors over played dense ones, computed by its CPU code.

A sparse tensor holds dense tensors: indices and values. On the GPU these are played; the same tensors over host memory
make the sparse tensor that PyTorch's CPU code takes. What only asks for the parts or makes a sparse tensor of parts is
the CPU's kernel itself, which works with parts on any device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from gpu2npu.emulator.device.dispatch.signature import overload

_KEYS = {"SparseCUDA": torch._C.DispatchKey.SparseCPU, "SparseCsrCUDA": torch._C.DispatchKey.SparseCsrCPU}
_OF_PARTS = {
    "SparseCUDA": (
        "_indices", "_values", "indices", "values", "is_coalesced", "_coalesced_", "sparse_dim", "dense_dim", "_dimI",
        "_dimV", "_nnz", "empty.memory_format", "_sparse_coo_tensor_with_dims", "copy_sparse_to_sparse_",
        "_sparse_coo_tensor_with_dims_and_tensors", "sparse_resize_", "sparse_resize_and_clear_", "copy_",
        "clone", "empty_like",
    ),
    "SparseCsrCUDA": (
        "crow_indices", "col_indices", "ccol_indices", "row_indices", "values", "sparse_dim", "dense_dim", "_nnz",
        "empty.memory_format", "_sparse_compressed_tensor_with_dims", "copy_", "clone", "empty_like",
    ),
}  # fmt: skip
# Kernels of PyTorch's that come before a fallback, and know nothing of sparse tensors.
_COMPOSED = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_LEFT_OUT = ("_pin_memory", "is_pinned")
_BY_ROWS = (torch.sparse_csr, torch.sparse_bsr)

_aten = torch.library.Library("aten", "IMPL")
_every = torch.library.Library("_", "IMPL")
_ops = torch.ops.aten


def install(compute: Any) -> None:
    """Register with PyTorch's dispatcher; `compute` runs an operator on host memory."""
    for key, names in _OF_PARTS.items():
        for name in names:
            op = overload(f"aten::{name}")
            _aten.impl(name, functools.partial(op._op_dk, _KEYS[key]), key)
        for name in _composed(_KEYS[key].name):
            if name not in names and name not in _LEFT_OUT:
                _aten.impl(name, functools.partial(compute, overload(f"aten::{name}")), key)
        _every.fallback(compute, key)
    _aten.impl("_sparse_mm_reduce_impl", _refused, "SparseCsrCUDA")


def _composed(key: str) -> Iterator[str]:
    """Names of operators that the CPU has for sparse tensors, and PyTorch composes for all other devices."""
    has: Any = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        if name.startswith("aten::") and any(has(name, other) for other in _COMPOSED):
            yield name.removeprefix("aten::")


def with_parts(tensor: torch.Tensor, change: Any, device: torch.device) -> torch.Tensor:
    """A sparse tensor on another device, whose parts are those of `tensor` after `change`."""
    kind: dict[str, Any] = {"dtype": tensor.dtype, "layout": tensor.layout, "device": device}
    if tensor.layout is torch.sparse_coo:
        ask = functools.partial(_part, _KEYS["SparseCUDA"], tensor)
        parts = change(ask("_indices")), change(ask("_values"))
        kind["is_coalesced"] = ask("is_coalesced")
        make = _ops._sparse_coo_tensor_with_dims_and_tensors.default
        return make(ask("sparse_dim"), ask("dense_dim"), tensor.shape, *parts, **kind)  # type: ignore[no-any-return]
    ask = functools.partial(_part, _KEYS["SparseCsrCUDA"], tensor)
    names = ("crow_indices", "col_indices") if tensor.layout in _BY_ROWS else ("ccol_indices", "row_indices")
    parts = tuple(change(ask(name)) for name in (*names, "values"))
    return _ops._sparse_compressed_tensor_unsafe.default(*parts, tensor.shape, **kind)  # type: ignore[no-any-return]


def _refused(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("PyTorch has torch.sparse.mm with a reduction for the CPU alone")


def _part(key: Any, tensor: torch.Tensor, name: str) -> Any:
    return getattr(_ops, name).default._op_dk(key, tensor)
