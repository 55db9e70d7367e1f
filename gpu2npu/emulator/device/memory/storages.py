"""Storages on the npu device: making them, and loading those that a checkpoint says were there."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.device.memory.storage_ops import empty
from gpu2npu.emulator.device.tensor import adopt

_PRIORITY = 15  # before torch's own entry for the backend (23), which needs an allocator written in C++
# As torch_npu/__init__.py names them: https://gitee.com/ascend/pytorch
_WITHOUT_TYPED_STORAGE = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]


def install() -> None:
    """Let `torch.UntypedStorage` and `torch.load` make npu storages, and give storages `npu()` and `is_npu`."""
    base = torch._C.StorageBase

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "npu":
            return base.__new__(cls, *args, **kwargs)
        if not args or isinstance(args[0], int):
            size = args[0] if args else 0
            return empty((size,), dtype=torch.uint8, device=torch.device(device)).untyped_storage()
        return _moved(base.__new__(cls, *args), visible_npus.index_of(device))

    torch.UntypedStorage.__new__ = staticmethod(new)  # type: ignore[assignment, method-assign]
    for name in ("_share_fd_cpu_", "_share_filename_cpu_"):
        setattr(torch.UntypedStorage, name, _unshared(getattr(torch.UntypedStorage, name)))
    reductions = torch.multiprocessing.reductions
    reductions.reduce_tensor = _reducing(reductions.reduce_tensor)  # type: ignore[assignment]
    torch.UntypedStorage.resize_ = _resizing(torch.UntypedStorage.resize_)  # type: ignore[method-assign]
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
    torch.utils.backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=False,
        for_module=False,
        for_packed_sequence=False,
        for_storage=True,
        unsupported_dtype=_WITHOUT_TYPED_STORAGE,
    )


def _unshared(share: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function that pickles a storage for another process, so that it refuses storages on an NPU."""

    @functools.wraps(share)
    def call(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "npu":
            raise RuntimeError("the emulated NPU shares no memory between processes: send tensor.cpu()")
        return share(self, *args, **kwargs)

    return call


def _reducing(reduce: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """`reduce_tensor`, for a tensor on an NPU with the function and the arguments of torch_npu's
    (torch_npu/multiprocessing/reductions.py), which gives another process no memory here."""

    @functools.wraps(reduce)
    def call(tensor: torch.Tensor) -> Any:
        if tensor.device.type != "npu":
            return reduce(tensor)
        storage = tensor._typed_storage()
        place = (tensor.size(), tensor.stride(), tensor.storage_offset())
        memory_of = (tensor.device.index, b"", storage._untyped_storage.nbytes(), 0)
        rebuild = importlib.import_module("torch_npu.multiprocessing.reductions").rebuild_npu_tensor
        after = (tensor.requires_grad, b"", 0, b"", False)
        return rebuild, (type(tensor), *place, type(storage), tensor.dtype, *memory_of, *after)

    return call


def _resizing(resize: Callable[..., Any]) -> Callable[..., Any]:
    """`resize_` for storages on an NPU too: FSDP frees gathered parameters by resizing to 0, and takes them back.

    The NPU's accounting sees the memory go. The host keeps it, since PyTorch cannot move a storage to other memory.
    """
    whole = torch.UntypedStorage.nbytes

    @functools.wraps(resize)
    def call(self: torch.UntypedStorage, size: int) -> Any:
        if self.device.type != "npu":
            return resize(self, size)
        capacity = whole(self)
        if size > capacity:
            raise NotImplementedError(
                f"the emulated NPU cannot grow a storage of {capacity} bytes to {size}: resize_() a tensor instead"
            )
        memory.resize(self.data_ptr(), size, self.device.index)
        for name in ("size", "nbytes"):  # what this one storage answers from now on
            self.__dict__.pop(name, None)
            if size < capacity:
                self.__dict__[name] = lambda: size
        return self

    return call


def _moved(storage: torch.UntypedStorage, index: int) -> torch.UntypedStorage:
    return adopt(torch.empty(0, dtype=torch.uint8).set_(storage), index).untyped_storage()


def _tag(storage: Any) -> str | None:
    """torch's own entry names npu storages well enough."""
    return None


def _restore(storage: Any, location: str) -> torch.UntypedStorage | None:
    match = re.fullmatch(r"npu(?::(\d+))?", location)
    if match is None:
        return None
    index = visible_npus.current_device() if match[1] is None else int(match[1])
    if not visible_npus.device_count():
        raise RuntimeError(
            "Attempting to deserialize object on a NPU device but torch.npu.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU."
        )
    if index >= visible_npus.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on NPU device {index} but torch.npu.device_count() is "
            f"{visible_npus.device_count()}. Please use torch.load with map_location to map your storages to an "
            "existing device."
        )
    return _moved(storage, index)
