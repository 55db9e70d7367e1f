"""The device's own operators in a shapes-only run: allocation, copies, filling and reading, without moving values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory, storage_ops
from gpu2npu.emulator.registration import Function, registering
from gpu2npu.emulator.shapes import pages, records, values
from gpu2npu.emulator.shapes.meta import without_values

_to_copy = torch.ops.aten._to_copy.default

OWN: dict[str, Function] = {}
_own = registering(OWN)


def _target(device: torch.device | None) -> int:
    return visible_npus.current_device() if device is None or device.index is None else visible_npus.check(device.index)


@_own("empty.memory_format")
def empty(size: Sequence[int], dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    dtype, layout, memory_format = (
        dtype or torch.get_default_dtype(),
        options.get("layout"),
        options.get("memory_format"),
    )
    is_plain = memory_format not in (torch.channels_last, torch.channels_last_3d) and not options.get("pin_memory")
    if min(size, default=0) < 0 or not is_plain or layout not in (None, torch.strided):
        return storage_ops.empty(size, dtype, **options)
    index = _target(options.get("device"))
    memory.check_room(math.prod(size) * dtype.itemsize, index)
    return values.mark(pages.new(size, dtype, index), values.is_knowable(size, dtype))


@_own("empty_strided")
def empty_strided(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None, **options: Any
) -> torch.Tensor:
    dtype = dtype or torch.get_default_dtype()
    if not all(size) or min(stride, default=1) < 0:
        return storage_ops.empty_strided(size, stride, dtype, **options)
    return values.mark(pages.new(size, dtype, _target(options.get("device")), stride), values.is_knowable(size, dtype))


_own("_efficientzerotensor")(empty)


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
    """To another dtype or device: a new tensor, with values where they are known."""
    dtype = storage_ops.cast_dtype(tensor, dtype, layout, device)
    wanted = dtype or tensor.dtype
    is_on_npu = tensor.get_device() >= 0
    is_known = values.is_known(tensor)
    if is_on_npu and device is not None and device.type == "cpu" and not non_blocking:
        records.wait("copy")
    if is_known and values.is_knowable(tensor.shape, wanted) and values.is_knowable(tensor.shape, tensor.dtype):
        copied = storage_ops.to_copy(tensor, dtype, layout, device, pin_memory, non_blocking, memory_format)
        return values.mark(copied, True) if copied.get_device() >= 0 else copied
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        return storage_ops.to_copy(tensor, dtype, layout, device, pin_memory, non_blocking, memory_format)
    if device is not None and device.type == "cpu":
        return _read(tensor, wanted)
    if device is not None and device.type != "npu":
        return torch.empty(tensor.shape, dtype=wanted, device=device)
    index = tensor.get_device() if device is None else _target(device)
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    if last is not None and not is_on_npu and tensor.is_contiguous(memory_format=last):
        memory_format = torch.contiguous_format
    like = _to_copy(without_values(tensor), dtype=wanted, memory_format=memory_format)
    strides = None if like.is_contiguous() else like.stride()
    return pages.new(tensor.shape, wanted, index, strides)


def _read(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The host's copy of a tensor whose values are unknown, which is listed."""
    name = str(tensor.dtype).removeprefix("torch.")
    found = values.guess("copy", f"{name}{list(tensor.shape)}")
    value = values.value_for(found.line)
    if value:
        return torch.full(tensor.shape, value, dtype=dtype, device="cpu")
    return torch.zeros(tensor.shape, dtype=dtype, device="cpu")


@_own("_copy_from")
def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Between host and device, and one dtype and another."""
    if target.get_device() < 0:
        if not non_blocking:
            records.wait("copy")
        if values.is_known(source):
            return storage_ops.copy_from(source, target, non_blocking)
        target.copy_(_read(source, target.dtype)) if target.nbytes <= 1 << 20 else _read(source[:0], target.dtype)
        return target
    if storage_ops._share_a_part(source, target):
        return storage_ops.copy_from(source, target, non_blocking)
    has_values = values.is_knowable(target.shape, target.dtype) and values.is_knowable(source.shape, source.dtype)
    if has_values and values.is_known(source) and _may_fill(target):
        storage_ops.copy_from(source, target, non_blocking)
        return values.mark(target, True)
    values.mark(target, False)
    return target


def _holds(target: torch.Tensor) -> bool:
    """Return whether the whole memory of a tensor may hold values: small, or integers."""
    count = target.untyped_storage().nbytes() // target.dtype.itemsize
    return values.is_knowable((count,), target.dtype)


@_own("_copy_from_and_resize")
def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if target.shape != source.shape:
        resize_(target, source.shape)
    return copy_from(source, target)


@_own("resize_")
def resize_(
    tensor: torch.Tensor, size: Sequence[int], memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    needed = (tensor.storage_offset() + math.prod(size)) * tensor.dtype.itemsize
    if needed <= tensor.untyped_storage().nbytes() or memory_format is not None or values.is_known(tensor):
        is_known = values.is_known(tensor)
        return values.mark(storage_ops.resize_(tensor, size, memory_format), is_known)
    grown = pages.new((needed // tensor.dtype.itemsize,), tensor.dtype, tensor.device.index)
    strides = torch.empty(size, device="meta").stride()
    return storage_ops.set_from_storage(tensor, grown.untyped_storage(), tensor.storage_offset(), size, strides)


@_own("_local_scalar_dense")
def local_scalar_dense(tensor: torch.Tensor) -> Any:
    """The value, or a guess that is listed."""
    records.wait("value")
    if values.is_known(tensor):
        return storage_ops.local_scalar_dense(tensor)
    found = values.guess("value", str(tensor.dtype).removeprefix("torch."))
    value = values.value_for(found.line)
    return torch.tensor(value, dtype=tensor.dtype, device="cpu").item()


def _may_fill(tensor: torch.Tensor) -> bool:
    return _holds(tensor) and (values.is_known(tensor) or values.covers(tensor))


@_own("fill_.Scalar")
def fill(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    if not _may_fill(tensor):
        return values.mark(tensor, False)
    return values.mark(storage_ops.fill(tensor, value), True)


@_own("fill_.Tensor")
def fill_from_tensor(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if not (_may_fill(tensor) and values.is_known(value)):
        return values.mark(tensor, False)
    return values.mark(storage_ops.fill_from_tensor(tensor, value), True)


@_own("zero_")
def zero(tensor: torch.Tensor) -> torch.Tensor:
    return fill(tensor, 0)
