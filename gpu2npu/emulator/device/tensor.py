"""The bridge between npu tensors and host memory: both directions share the bytes, neither copies.

An npu tensor is an ordinary `torch.Tensor` of PyTorch's PrivateUse1 backend over host memory. PyTorch builds one from a
DLPack capsule whose device field says "extension device"; rewriting that one field of the capsule is the whole bridge.
Storage, strides, views and version counters are then PyTorch's own C++ code.

Layout of the capsule (DLPack 0.x, `DLTensor`): a data pointer, `int32 device_type, int32 device_id`, the number of
dimensions (int32), then the dtype: its kind in one byte, its bits in the next.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import torch

from gpu2npu.emulator.device import native, visible_npus
from gpu2npu.emulator.device.memory.memory import admit, hold, large_freed, pool_of
from gpu2npu.emulator.device.memory.memory import blocks as _blocks
from gpu2npu.emulator.kernels.registry import quiet_context

Array: TypeAlias = np.ndarray[Any, Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_to_dlpack = torch._C._to_dlpack
_from_dlpack = torch._C._from_dlpack
_numpy = torch.Tensor.numpy  # as they are now: tools that watch a program replace the methods of tensors
_view = torch.Tensor.view
_fill = torch.Tensor.fill_
set_storage_of = torch.ops.aten.set_.source_Storage_storage_offset._op_dk
_CPU_KEY = torch._C.DispatchKey.CPU
_word_at = ctypes.c_int64.from_address
_byte_at = ctypes.c_uint8.from_address
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)

_DEVICE_FIELD = ctypes.sizeof(ctypes.c_void_p)
_DTYPE_FIELD = _DEVICE_FIELD + 12  # after the device and the int32 number of dimensions
_BFLOAT = 4  # kDLBfloat
_CPU = 1  # kDLCPU, index 0
_NPU = tuple(12 | index << 32 for index in range(128))  # kDLExtDev, which torch reads as PrivateUse1


NUMPY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: BFLOAT16,
    torch.int64: np.dtype(np.int64),
    torch.int32: np.dtype(np.int32),
    torch.int16: np.dtype(np.int16),
    torch.int8: np.dtype(np.int8),
    torch.uint8: np.dtype(np.uint8),
    torch.uint16: np.dtype(np.uint16),
    torch.uint32: np.dtype(np.uint32),
    torch.uint64: np.dtype(np.uint64),
    torch.bool: np.dtype(np.bool_),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
TORCH_DTYPES = {value: key for key, value in NUMPY_DTYPES.items()}


class _Bits(np.ndarray[Any, Any]):
    """Views that refer to the very array they are of, as its memory is counted while it lives.

    The base of a view of NumPy's own class is the array that this one is a view of itself.
    """


class NoArrayError(TypeError):
    """NumPy has no arrays of a tensor's dtype."""


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor over the same bytes: same shape, strides and dtype; writes are seen on both sides.

    A CPU tensor is returned as it is. The result has no autograd history.
    """
    if tensor.get_device() < 0:
        return tensor
    capsule = _to_dlpack(tensor)
    _word_at(_pointer(capsule, b"dltensor") + _DEVICE_FIELD).value = _CPU
    return _from_dlpack(capsule)  # type: ignore[no-any-return]


def _array(tensor: torch.Tensor) -> Array:
    """The NumPy array over the same bytes; bfloat16 as `ml_dtypes.bfloat16`.

    Raises:
        NoArrayError: NumPy has no such dtype (float8, quantized).
    """
    block = _blocks.get(tensor.data_ptr())
    if (
        block is not None
        and block.shape == tensor.shape
        and block.dtype is tensor.dtype
        and tensor.is_contiguous()
        and (values := block()) is not None
    ):
        return values  # type: ignore[no-any-return]
    if tensor.get_device() < 0 and tensor.dtype is not torch.bfloat16 and not tensor.requires_grad:
        return _numpy(tensor)  # a number that PyTorch wrapped
    view = _view_of_block(tensor)
    if view is not None:
        return view
    capsule = _to_dlpack(tensor)
    _word_at(_pointer(capsule, b"dltensor") + _DEVICE_FIELD).value = _CPU
    alias = _from_dlpack(capsule)
    if alias.dtype is torch.bfloat16:
        return _numpy(_view(alias, torch.int16)).view(BFLOAT16)  # type: ignore[no-any-return]
    try:
        return _numpy(alias)  # type: ignore[no-any-return]
    except TypeError as error:
        raise NoArrayError(str(error)) from error


def _view_of_block(tensor: torch.Tensor) -> Array | None:
    """The array of a view, made from its block's in a third of a capsule's time; None if that cannot be."""
    block = _blocks.get(tensor.untyped_storage().data_ptr())
    if block is None or block.shape is None or block.dtype is not tensor.dtype:
        return None
    values = block()
    if values is None:
        return None
    size = values.itemsize
    strides = tuple([step * size for step in tensor.stride()])
    return np.ndarray(tensor.shape, values.dtype, values, tensor.storage_offset() * size, strides)


def _on_npu(values: Array, index: int) -> torch.Tensor:
    """A tensor on npu:`index` over the memory of `values`, counted as allocated there until it is freed.

    `values` must be writable, of non-negative strides, and the only owner of its memory.

    Raises:
        torch.OutOfMemoryError: The NPU has no room for it.
    """
    is_bfloat16 = values.dtype == BFLOAT16  # which NumPy cannot export
    capsule = values.view(np.int16, _Bits).__dlpack__() if is_bfloat16 else values.__dlpack__()
    address = _pointer(capsule, b"dltensor")
    _word_at(address + _DEVICE_FIELD).value = _NPU[index]
    if is_bfloat16:
        _byte_at(address + _DTYPE_FIELD).value = _BFLOAT
    tensor: torch.Tensor = _from_dlpack(capsule)
    if not values.size:  # NumPy's strides of nothing are 0
        set_storage_of(_CPU_KEY, tensor, tensor.untyped_storage(), 0, values.shape, strides_of(values.shape))
    hold(values, tensor.data_ptr(), tensor.dtype, index)
    return tensor


def strides_of(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor, counted in elements; dimensions of 0 count as 1."""
    strides = [1] * len(shape)
    for dimension in range(len(shape) - 2, -1, -1):
        strides[dimension] = strides[dimension + 1] * max(shape[dimension + 1], 1)
    return strides


def adopt(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """The tensor on npu:`index` over the memory of a CPU tensor that nobody else uses: any dtype, any strides.

    Raises:
        torch.OutOfMemoryError: The NPU has no room for it.
    """
    if tensor.dtype in NUMPY_DTYPES and tensor.dtype is not torch.bfloat16:
        return on_npu(_numpy(tensor), index)
    if tensor.dtype is torch.bfloat16:
        return on_npu(_numpy(_view(tensor, torch.int16)).view(BFLOAT16), index)
    block = _numpy(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()))
    hold(block, tensor.untyped_storage().data_ptr(), torch.uint8, index)
    storage = torch.from_numpy(block).untyped_storage()
    plain = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    capsule = _to_dlpack(plain)
    _word_at(_pointer(capsule, b"dltensor") + _DEVICE_FIELD).value = _NPU[index]
    return _from_dlpack(capsule)  # type: ignore[no-any-return]


host: Callable[[torch.Tensor], torch.Tensor] = _host
array: Callable[[torch.Tensor], Array] = _array
on_npu: Callable[[Array, int], torch.Tensor] = _on_npu
if native.account is not None:
    plain = _array, _on_npu, _host
    native.account.begin(
        _blocks, pool_of, admit, large_freed, visible_npus.current_device, *plain, quiet_context(), NUMPY_DTYPES
    )
    host, array, on_npu = native.account.host, native.account.array, native.account.on_npu


def initial(tensor: torch.Tensor) -> torch.Tensor:
    """The new tensor, with NaN or the largest number in it where deterministic algorithms are to fill memory.

    torch_npu does so from 2.7.1 and 2.9 on (TensorFactories.cpp, ResizeNpu.cpp).
    """
    if torch.are_deterministic_algorithms_enabled() and torch._C._get_deterministic_fill_uninitialized_memory():
        kind = tensor.dtype
        is_inexact = kind.is_floating_point or kind.is_complex
        _fill(host(tensor), math.nan if is_inexact else kind is torch.bool or torch.iinfo(kind).max)
    return tensor
