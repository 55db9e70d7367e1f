"""torch_npu's operators that only allocate, copy, convert or describe memory. None of them is arithmetic.

A real NPU stores some tensors in formats of its own (29, FRACTAL_NZ, for matrices). Here all are stored plainly,
and a cast to a private format takes the memory of its blocks and leaves a mark that `get_npu_format` reads, where a
real NPU would make the cast at all.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch

from gpu2npu.emulator.device.memory import storage_ops
from gpu2npu.emulator.device.settings import config
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.registration import Function, registering

ND, NCHW, NCDHW, NC1HWC0, FRACTAL_NZ = 2, 0, 30, 3, 29
_BLOCK_BYTES = 32
_MATRIX = 2  # dimensions; torch_npu leaves fewer in ND (`ShouldFallbackNzToNd` of FormatCastKernelNpu.cpp)
_BASE = frozenset({-1, 0, 1, 2, 16, 27, 30, 35, 47})  # formats of public memory layout; all others are private
_FLOAT_STATUS = 8

OWN: dict[str, Function] = {}
_own = registering(OWN)
MAKES = frozenset(
    {
        "empty_with_format",
        "unsafe_empty_with_format",
        "empty_with_swapped_memory",
        "npu_prefetch",
        "npu_dropout_gen_mask",
    }
)

# c10::ScalarType, which torch_npu's schemas call an int.
_SCALAR_TYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
}


def base_format(tensor: torch.Tensor) -> int:
    """Return the format that a plain tensor counts as: NCHW of 4 dimensions, NCDHW of 5, else ND."""
    return {4: NCHW, 5: NCDHW}.get(tensor.dim(), ND)


def mark_format(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Give a tensor a private format, or warn that `torch.npu.config.allow_internal_format` forbids it."""
    if number in _BASE:
        tensor._npu_format = number if number in (NCHW, ND, NCDHW) else base_format(tensor)  # type: ignore[attr-defined]
    elif getattr(config, "allow_internal_format", False):
        tensor._npu_format = number  # type: ignore[attr-defined]
    else:
        warnings.warn(
            "Cannot create tensor with internal format while allow_internal_format=False, tensor will be created with "
            "base format.",
            UserWarning,
            stacklevel=3,
        )
    return tensor


@_own("get_npu_format")
def get_npu_format(self: torch.Tensor) -> int:
    marked: int | None = getattr(self, "_npu_format", None)
    return base_format(self) if marked is None else marked


@_own("npu_format_cast", "_npu_format_cast")
def npu_format_cast(
    self: torch.Tensor, acl_format: int, customize_dtype: int | None = None, input_dtype: int | None = None
) -> torch.Tensor:
    """The tensor in a storage format (see `torch_npu.Format`); values never change."""
    owner = self._base if self._is_view() else self
    if get_npu_format(self) == acl_format or (acl_format == FRACTAL_NZ and owner.dim() < _MATRIX):  # type: ignore[union-attr]
        return self
    if acl_format not in (FRACTAL_NZ, NC1HWC0) or not getattr(config, "allow_internal_format", False):
        return mark_format(self.clone(), acl_format)
    stored = torch.empty(_stored(self, acl_format, customize_dtype), dtype=self.dtype, device=self.device)
    result = torch.empty(self.shape, dtype=self.dtype, device=self.device)
    storage_ops.set_from_storage(result, stored.untyped_storage(), 0, result.shape, result.stride())
    return mark_format(result.copy_(self), acl_format)


def _stored(tensor: torch.Tensor, acl_format: int, customize_dtype: int | None) -> int:
    """Elements that a format of blocks stores: the last dimensions are filled up (torch_npu's `FormatHelper.cpp`)."""
    if acl_format == NC1HWC0:
        sizes = (1,) * (4 - tensor.dim()) + tuple(tensor.shape)
        return math.prod((sizes[0], math.ceil(sizes[1] / 16) * 16, *sizes[2:]))
    rows, columns = (*tensor.shape, 1, 1)[: max(tensor.dim(), 2)][-2:]
    block = _BLOCK_BYTES // min(tensor.element_size(), 2)
    if customize_dtype is not None:
        block = _BLOCK_BYTES // _dtype(customize_dtype).itemsize
    padded = math.ceil(columns / block) * block * math.ceil(rows / 16) * 16
    return max(math.prod(tensor.shape[:-2]) * padded, tensor.numel())


@_own("npu_format_cast.Tensor")
def npu_format_cast_like(self: torch.Tensor, dst: torch.Tensor, **dtypes: int | None) -> torch.Tensor:
    return npu_format_cast(self, get_npu_format(dst))


@_own("npu_format_cast_.acl_format")
def npu_format_cast_in_place(self: torch.Tensor, acl_format: int, **dtypes: int | None) -> torch.Tensor:
    return mark_format(self, acl_format)


@_own("npu_format_cast_")
def npu_format_cast_in_place_from(self: torch.Tensor, src: torch.Tensor, **dtypes: int | None) -> torch.Tensor:
    self.copy_(src)
    return mark_format(self, get_npu_format(src))


def _dtype(number: int | torch.dtype) -> torch.dtype:
    if isinstance(number, torch.dtype):
        return number
    if number not in _SCALAR_TYPES:
        raise NotImplementedError(f"torch_npu: the emulated NPU has no dtype number {number}")
    return _SCALAR_TYPES[number]


@by_schema(_own, "npu_dtype_cast", "_npu_dtype_cast")
def npu_dtype_cast(a: Arguments) -> torch.Tensor:
    """The tensor in another dtype."""
    return a.self.to(_dtype(a.dtype))  # type: ignore[no-any-return]


@_own("npu_dtype_cast_")
def npu_dtype_cast_in_place(self: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    return self.copy_(src)


@_own("npu_dtype_cast_backward", "_npu_dtype_cast_backward")
def npu_dtype_cast_backward(grad: torch.Tensor, dtype: torch.dtype, *others: int | None) -> torch.Tensor:
    return grad.to(dtype)


@_own("npu_transpose")
def npu_transpose(self: torch.Tensor, perm: Sequence[int], require_contiguous: bool = True) -> torch.Tensor:
    """The permuted tensor, contiguous."""
    return self.permute(list(perm)).clone(memory_format=torch.contiguous_format)


@_own("npu_reshape")
def npu_reshape(self: torch.Tensor, shape: Sequence[int], can_refresh: bool = False) -> torch.Tensor:
    return self.reshape(list(shape)).clone()


@_own("npu_stride_copy")
def npu_stride_copy(
    self: torch.Tensor, shape: Sequence[int], stride: Sequence[int], storage_offset: float
) -> torch.Tensor:
    """A contiguous copy of `torch.as_strided`."""
    return self.as_strided(shape, stride, int(storage_offset)).clone(memory_format=torch.contiguous_format)


@_own("npu_view_copy", "copy_memory_")
def copy_memory(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """`copy_` between NPU tensors.

    Raises:
        RuntimeError: Another NPU has `src`, or the sizes differ.
    """
    if src.device != self.device or src.numel() != self.numel():
        raise RuntimeError(
            f"copy_memory_ copies within one NPU as many elements as there are, but got {src.device} "
            f"{list(src.shape)} for {self.device} {list(self.shape)}"
        )
    return self.copy_(src.view(self.shape))


@_own("one_")
def one(self: torch.Tensor) -> torch.Tensor:
    return self.fill_(1)


@_own("get_storage_size")
def get_storage_size(self: torch.Tensor) -> int:
    """Elements of the tensor's storage; of one that shares another's, those that its own had."""
    own: int | None = getattr(self, "_npu_stored", None)
    return self.untyped_storage().nbytes() // self.element_size() if own is None else own


@_own("npu_change_data_ptr")
def npu_change_data_ptr(dst: torch.Tensor, src: torch.Tensor, index: int) -> int:
    """Let `dst` share the memory of `src` from element `index` on.

    Raises:
        RuntimeError: `src` is too short.
    """
    stored, whole = get_storage_size(dst), get_storage_size(src)
    if index < 0 or index + stored > whole:
        raise RuntimeError(f"Offsets overflow, got: offset(index) {index}, dst {stored}, src {whole} elements")
    offset = src.storage_offset() + index
    storage_ops.set_from_storage(dst, src.untyped_storage(), offset, dst.shape, dst.stride())
    dst._npu_stored = stored  # type: ignore[attr-defined]
    return 0


@by_schema(_own, "empty_with_format", "unsafe_empty_with_format")
def empty_with_format(a: Arguments) -> torch.Tensor:
    """`torch.empty` in a storage format."""
    return mark_format(torch.empty(a.size, dtype=a.dtype, device=a.device or "npu"), a.acl_format)


@_own("empty_with_swapped_memory")
def empty_with_swapped_memory(
    size: Sequence[int], dtype: torch.dtype | None = None, device: torch.device | None = None
) -> torch.Tensor:
    """`torch.empty`; memory that a real NPU shares with the host, as here all of it is."""
    return torch.empty(size, dtype=dtype, device=device or "npu")


@_own("npu_prefetch")
def npu_prefetch(self: torch.Tensor, dependency: torch.Tensor | None, max_size: int, offset: int = 0) -> None:
    """Nothing to do: there is no cache to fill."""


@by_schema(_own, "npu_dropout_gen_mask")
def npu_dropout_gen_mask(a: Arguments) -> torch.Tensor:
    """The bit mask that `_npu_dropout` would draw for a tensor of this size."""
    mask: torch.Tensor = torch.ops.npu._npu_dropout(torch.ones(a.size, dtype=a.dtype, device=a.device or "npu"), a.p)[1]
    return mask


@_own("npu_alloc_float_status")
def npu_alloc_float_status(self: torch.Tensor) -> torch.Tensor:
    """Eight zeros, the register of overflow flags."""
    return torch.zeros(_FLOAT_STATUS, device=self.device)


@by_schema(_own, "npu_get_float_status", "npu_clear_float_status")
def npu_get_float_status(a: Arguments) -> torch.Tensor:
    """Eight zeros: overflow shows as inf in the results, as on chips from Ascend 910B on, and raises no flag."""
    return torch.zeros(_FLOAT_STATUS, device=a.self.device)
