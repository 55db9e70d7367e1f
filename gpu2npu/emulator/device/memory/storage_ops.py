"""The operators that only allocate, copy, alias or read memory: the device's own, none of them arithmetic.

Views run PyTorch's own C++ code: the kernels of the Meta and CPU keys that compute only sizes and strides work on any
tensor, so they are called by that key. What PyTorch composes from these (`clone`, `contiguous`, `transpose`, `expand`,
`select`, ...) needs nothing here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device import chip_family, visible_npus
from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.emulator.device.dispatch.limits import LimitError, note, refused
from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.device.tensor import (
    NUMPY_DTYPES,
    adopt,
    array,
    host,
    initial,
    on_npu,
    set_storage_of,
    strides_of,
)
from gpu2npu.emulator.registration import Function, registering
from gpu2npu.emulator.soc import saturates
from gpu2npu.support.conditions import DTYPES, CallFacts

aten = torch.ops.aten
_CPU = torch._C.DispatchKey.CPU
_META = torch._C.DispatchKey.Meta

_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd
_AS_IT_IS = (None, torch.preserve_format, torch.contiguous_format)

_clone = aten.clone.default._op_dk
_as_strided = aten.as_strided.default._op_dk
_view = aten.view.default._op_dk
_reshape_alias = aten._reshape_alias.default._op_dk
_unfold = aten.unfold.default._op_dk
_view_as_real = aten.view_as_real.default._op_dk
_view_as_complex = aten.view_as_complex.default._op_dk

# As they are now: a tool that watches a program replaces methods of tensors, and would take these calls for its own.
_fill = torch.Tensor.fill_
_zero = torch.Tensor.zero_
_copy = torch.Tensor.copy_
_item = torch.Tensor.item
_view_dtype = torch.Tensor.view
_numpy = torch.Tensor.numpy

_FLOAT8 = frozenset(getattr(torch, name) for name in DTYPES["float8s"] if hasattr(torch, name))

OWN: dict[str, Function] = {}
_own = registering(OWN)


def _check(name: str, tensor: torch.Tensor) -> None:
    """Raise LimitError where the chip has no float8 to make or to copy."""
    if tensor.dtype in _FLOAT8 and limits.refuses.get():
        limits.refuse(name, CallFacts({"self": limits.facts(tensor)}))


def _target(device: torch.device | None) -> int:
    return visible_npus.current_device() if device is None or device.index is None else visible_npus.check(device.index)


# What torch_npu's tensors have not: `empty` and `to` refuse it (TensorFactories.cpp, TensorConversions.cpp in
# torch_npu/csrc/aten), as `contiguous` does. What `clone`, `contiguous` and `empty_like` make comes from `empty` here.
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by the number of dimensions


@_own("empty.memory_format")
def empty(
    size: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    index = _target(device)
    dtype = dtype or torch.get_default_dtype()
    if min(size, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if layout is not None and layout is not torch.strided:
        raise NotImplementedError(f"the NPU has no tensors of layout {layout}")
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    length = math.prod(size) * dtype.itemsize
    if length > memory.SMALL:  # NumPy can allocate less before the account refuses it
        memory.check_room(length, index)
    if memory_format is not None and memory_format in _CHANNELS_LAST.values():
        raise RuntimeError("Only c10::MemoryFormat::Contiguous is supported for creating a npu tensor")
    if dtype in NUMPY_DTYPES:
        return initial(on_npu(np.empty(size, NUMPY_DTYPES[dtype]), index))
    return adopt(torch.empty(size, dtype=dtype, device="cpu"), index)


@_own("empty_strided")
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    if list(stride) == strides_of(size):
        return empty(size, dtype, layout, device, pin_memory)
    index = _target(device)
    dtype = dtype or torch.get_default_dtype()
    if dtype in NUMPY_DTYPES and min(stride, default=1) >= 0:
        kind = NUMPY_DTYPES[dtype]
        extent = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True)) if all(size) else 0
        memory.check_room(extent * kind.itemsize, index)
        strides = tuple(step * kind.itemsize for step in stride)
        tensor = initial(on_npu(np.ndarray(size, kind, np.empty(extent, kind), strides=strides), index))
        return tensor if extent else set_from_storage(tensor, tensor.untyped_storage(), 0, size, stride)
    memory.check_room(math.prod(size) * dtype.itemsize, index)
    return adopt(torch.empty_strided(size, stride, dtype=dtype, device="cpu"), index)


@_own("clone")
def clone(tensor: torch.Tensor, memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """A copy; of a tensor that fills its memory it is one of the array, else PyTorch composes it of others here."""
    _check("aten::clone", tensor)
    is_plain = tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    if memory_format in _AS_IT_IS and is_plain and tensor.dtype in NUMPY_DTYPES:
        values, index = array(tensor), tensor.get_device()
        if values.nbytes > memory.SMALL:
            memory.check_room(values.nbytes, index)
        return on_npu(values.copy(), index)
    return _clone(_COMPOSITE, tensor, memory_format=memory_format)  # type: ignore[no-any-return]


@_own("_efficientzerotensor")
def zeros(size: Sequence[int], **options: Any) -> torch.Tensor:
    """Zeros that take their memory: the efficient ones have none, and exist for the CPU and CUDA alone."""
    return zero(empty(size, **options))


def cast_dtype(
    tensor: torch.Tensor, dtype: torch.dtype | None, layout: torch.layout | None, device: torch.device | None
) -> torch.dtype | None:
    """The dtype that a cast to `dtype` gives: of an NPU's tensor by a dtype alone, float32 for float64."""
    if tensor.get_device() < 0:
        return dtype
    chip_family.check_cast(tensor.dtype, dtype)
    if dtype is torch.float64 and tensor.dtype is not dtype and layout is None and device is None:
        return _narrowed(tensor)
    return dtype


@_own("_to_copy")
def to_copy(
    tensor: torch.Tensor,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """To another dtype or device; PyTorch's own would pin what it copies to the host without blocking.

    A tensor of the host in channels_last becomes contiguous on the NPU, without a word, as torch_npu's `empty_like`
    makes it.

    Raises:
        LimitError: It shall become channels_last, in torch_npu's words.
    """
    if memory_format in _CHANNELS_LAST.values():
        raise LimitError("Only contiguous_format or preserve_format is supported.")
    last = _CHANNELS_LAST.get(tensor.dim())
    if last is not None and tensor.get_device() < 0 and tensor.is_contiguous(memory_format=last):
        memory_format = torch.contiguous_format
    dtype = cast_dtype(tensor, dtype, layout, device)
    copied: torch.Tensor = aten._to_copy.default(_resolved(tensor), dtype=dtype, memory_format=memory_format)
    if dtype is torch.float16 and saturates():
        chip_family.saturate(_numpy(copied))
    if device is None:
        return adopt(copied, tensor.get_device())
    if device.type == "npu":
        return adopt(copied, _target(device))
    return copied if device.type == "cpu" else copied.to(device)


def _narrowed(tensor: torch.Tensor) -> torch.dtype:
    """float32, with torch_npu's warning at the first time, where the release does not cast to float64."""
    met = note("torch.Tensor.double", CallFacts({"self": limits.facts(tensor)}))
    if met is None:
        return torch.float64
    if limits.met[met.id] == 1:
        warnings.warn(met.words, UserWarning, stacklevel=3)
    return torch.float32


@_own("_copy_from")
def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Between host and device, device and device, and one dtype and another.

    Raises:
        RuntimeError: They share a part of their memory, in the words of torch's TensorIterator.
    """
    if _share_a_part(source, target):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
    if (source.dtype in _FLOAT8 or target.dtype in _FLOAT8) and limits.refuses.get():
        limits.refuse("aten::copy_", CallFacts({"self": limits.facts(target), "src": limits.facts(source)}))
    _copy(_resolved(target), _resolved(source))
    if target.dtype is torch.float16 and source.dtype is not torch.float16 and saturates():
        chip_family.saturate(_numpy(host(target)))
    return target


def _share_a_part(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two contiguous tensors share bytes and are not the same; torch does not look at others either."""
    if one.get_device() != other.get_device() or one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    start, other_start = one.data_ptr(), other.data_ptr()
    if (start == other_start and one.nbytes == other.nbytes) or not (one.is_contiguous() and other.is_contiguous()):
        return False
    return start < other_start + other.nbytes and other_start < start + one.nbytes


@_own("_copy_from_and_resize")
def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if target.shape != source.shape:
        resize_(target, source.shape)
    return copy_from(source, target)


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """The host tensor with the lazy conjugation and negation bits, which the bytes alone do not carry."""
    alias = host(tensor)
    if alias is not tensor:
        if tensor.is_conj():
            alias = alias.conj()
        if tensor.is_neg():
            alias = torch._neg_view(alias)
    return alias


@_own("as_strided")
def as_strided(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    return _as_strided(_CPU, tensor, size, stride, storage_offset)  # Meta's would let it reach out of the storage


@_own("view")
def view(tensor: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    return _view(_META, tensor, size)


@_own("_reshape_alias")
def reshape_alias(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    return _reshape_alias(_META, tensor, size, stride)


@_own("unfold")
def unfold(tensor: torch.Tensor, dimension: int, size: int, step: int) -> torch.Tensor:
    return _unfold(_META, tensor, dimension, size, step)


@_own("view_as_real")
def view_as_real(tensor: torch.Tensor) -> torch.Tensor:
    return _view_as_real(_META, tensor)


@_own("view_as_complex")
def view_as_complex(tensor: torch.Tensor) -> torch.Tensor:
    return _view_as_complex(_META, tensor)


@_own("set_.source_Storage_storage_offset")
def set_from_storage(
    tensor: torch.Tensor,
    source: torch.UntypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int] = (),
) -> torch.Tensor:
    return set_storage_of(_CPU, tensor, source, storage_offset, size, stride)


@_own("set_.source_Storage")
def set_storage(tensor: torch.Tensor, source: torch.UntypedStorage) -> torch.Tensor:
    return set_from_storage(tensor, source, 0, (source.nbytes() // tensor.dtype.itemsize,))


@_own("set_.source_Tensor")
def set_tensor(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is not source.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
    storage = source.untyped_storage()
    return set_from_storage(tensor, storage, source.storage_offset(), source.shape, source.stride())


@_own("set_")
def set_empty(tensor: torch.Tensor) -> torch.Tensor:
    return set_tensor(tensor, empty((0,), dtype=tensor.dtype, device=tensor.device))


@_own("is_set_to")
def is_set_to(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        tensor.untyped_storage()._cdata == other.untyped_storage()._cdata
        and tensor.storage_offset() == other.storage_offset()
        and tensor.shape == other.shape
        and tensor.stride() == other.stride()
    )


@_own("_has_compatible_shallow_copy_type")
def has_compatible_shallow_copy_type(tensor: torch.Tensor, source: torch.Tensor) -> bool:
    """Return whether `tensor.data = source` works: between the CPU and the NPU too, as torch_npu has it.

    torch_npu overrides this operator for every key ("_has_compatible_shallow_copy_type" in `torch_npu/csrc/aten`).
    `Module.to` and `Module.npu` therefore keep Parameter objects: tied weights stay tied, and an optimizer made before
    the move trains the moved parameters.
    """
    return all(each.device.type in ("cpu", "npu") and each.layout is torch.strided for each in (tensor, source))


@_own("resize_")
def resize_(
    tensor: torch.Tensor, size: Sequence[int], memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """Growing moves the tensor to a new block (views keep the old one: PyTorch cannot grow foreign memory).

    Raises:
        RuntimeError: The NPU has no such memory format.
    """
    if memory_format is not None:
        met = refused("torch.Tensor.resize_", CallFacts({"memory_format": str(memory_format)}))
        if met is not None:
            raise RuntimeError(f"resize_: {limits.explained(met)}")
    needed = (tensor.storage_offset() + math.prod(size)) * tensor.dtype.itemsize
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        grown = empty((needed // tensor.dtype.itemsize,), dtype=tensor.dtype, device=tensor.device)
        retained = empty((0,), dtype=tensor.dtype, device=tensor.device)
        set_storage(retained, storage)
        _copy(host(grown)[: retained.numel()], host(retained))
        storage = grown.untyped_storage()
    strides = torch.empty(size, device="meta", memory_format=memory_format).stride()
    return set_from_storage(tensor, storage, tensor.storage_offset(), size, strides)


@_own("_local_scalar_dense")
def local_scalar_dense(tensor: torch.Tensor) -> Any:
    return _item(_resolved(tensor))


@_own("fill_.Scalar")
def fill(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    _check("aten::fill_", tensor)
    if tensor.dtype is torch.bool:  # which PyTorch fills one by one on the CPU
        _fill(_view_dtype(host(tensor), torch.uint8), bool(value))
    else:
        _fill(host(tensor), value)
    return tensor


@_own("fill_.Tensor")
def fill_from_tensor(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    _check("aten::fill_", tensor)
    _fill(host(tensor), _resolved(value))
    return tensor


@_own("zero_")
def zero(tensor: torch.Tensor) -> torch.Tensor:
    _check("aten::zero_", tensor)
    _zero(host(tensor))
    return tensor


@_own("record_stream")
def record_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Nothing to do: memory is freed when its last tensor is, and every stream has run by then."""
