"""The bridge between tensors on `cuda` and host memory: both directions share the bytes, neither copies.

PyTorch builds a tensor from a DLPack capsule whose device field says "CUDA"; rewriting that field is the whole bridge.
"""

from __future__ import annotations

import ctypes

import torch

from gpu2npu.verify.reference.sparse import with_parts

_to_dlpack = torch._C._to_dlpack
_from_dlpack = torch._C._from_dlpack
_word_at = ctypes.c_int64.from_address
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)

_DEVICE_FIELD = ctypes.sizeof(ctypes.c_void_p)
_CPU = 1  # kDLCPU, index 0
_CUDA = 2  # kDLCUDA
_HOST = torch.device("cpu")


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor over the same bytes: same shape, strides and dtype. A CPU tensor is returned as it is."""
    if not tensor.is_cuda:
        return tensor
    if tensor.layout is not torch.strided:
        return with_parts(tensor, host, _HOST)
    capsule = _to_dlpack(tensor)
    _word_at(_pointer(capsule, b"dltensor") + _DEVICE_FIELD).value = _CPU
    alias: torch.Tensor = _from_dlpack(capsule)
    if tensor.is_conj():
        alias = alias.conj()
    return torch._neg_view(alias) if tensor.is_neg() else alias


def adopt(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """The tensor on cuda:`index` over the memory of a CPU tensor that nobody else writes."""
    if tensor.layout is not torch.strided:
        return with_parts(tensor.detach(), lambda part: adopt(part, index), torch.device("cuda", index))
    capsule = _to_dlpack(tensor.detach().resolve_conj().resolve_neg())
    _word_at(_pointer(capsule, b"dltensor") + _DEVICE_FIELD).value = _CUDA | index << 32
    return _from_dlpack(capsule)  # type: ignore[no-any-return]
