"""Teaches PyTorch's Python functions, when a played device is installed, what they cannot know of it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _device

from gpu2npu.emulator.device import pinning
from gpu2npu.verify.reference import random, visible_gpus
from gpu2npu.verify.reference.tensors import adopt, host

_PRIORITY = 5  # before torch's own entries for CPU (10) and CUDA (20)


def install() -> None:
    """Change torch's functions, once a process."""
    _device._device_constructors()  # `with torch.device(...)` knows factories by identity
    for name in pinning.FACTORIES:
        setattr(torch, name, pinning.pinning(getattr(torch, name)))
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, _completing(getattr(torch, name)))
    tensor: Any = torch.Tensor
    tensor.to = _completing(tensor.to)
    tensor.cuda = _cuda
    tensor.type = _typing(tensor.type)
    tensor.pin_memory, tensor.is_pinned = pinning.pin_memory, pinning.is_pinned
    torch.Generator = random.Generator  # type: ignore[misc, assignment]
    _install_storages()
    _install_backward()


def _complete(value: Any) -> Any:
    """A bare "cuda" with the current device's number; anything else as it is."""
    if isinstance(value, str) and value == "cuda":
        return torch.device("cuda", visible_gpus.current_device())
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cuda", visible_gpus.index_of(value))
    return value


def _completing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _complete(kwargs["device"])
        return function(*map(_complete, args), **kwargs)

    return call


def _cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> torch.Tensor:
    index = visible_gpus.index_of(device)
    if self.is_cuda and self.get_device() == index:
        return self
    return self.to(torch.device("cuda", index), memory_format=memory_format)


def _typing(function: Callable[..., Any]) -> Callable[..., Any]:
    """`tensor.type("torch.cuda.FloatTensor")`, and with the types of `torch.cuda`."""

    @functools.wraps(function)
    def call(tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        name = f"torch.cuda.{dtype.__name__}" if getattr(dtype, "__module__", "") == "torch.cuda" else dtype
        if isinstance(name, str) and name.startswith("torch.cuda."):
            return tensor.cuda().to(getattr(torch.cuda, name.removeprefix("torch.cuda.")).dtype)
        return function(tensor, dtype, non_blocking, **kwargs)

    return call


def _install_storages() -> None:
    """Let `torch.UntypedStorage` and `torch.load` make storages on `cuda`."""
    base = torch._C.StorageBase

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "cuda":
            return base.__new__(cls, *args, **kwargs)
        index = visible_gpus.index_of(device)
        if not args or isinstance(args[0], int):
            return adopt(torch.empty(args[0] if args else 0, dtype=torch.uint8, device="cpu"), index).untyped_storage()
        return _moved(base.__new__(cls, *args), index)

    storage: Any = torch.UntypedStorage
    storage.__new__ = staticmethod(new)
    storage.cuda = lambda self, device=None, non_blocking=False: _moved(self, visible_gpus.index_of(device))
    torch.serialization.register_package(_PRIORITY, lambda storage: None, _restore)


def _moved(storage: torch.UntypedStorage, index: int) -> torch.UntypedStorage:
    if storage.device.type == "cuda" and storage.device.index == index:
        return storage
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return adopt(host(flat).clone(), index).untyped_storage()


def _restore(storage: Any, location: str) -> torch.UntypedStorage | None:
    match = re.fullmatch(r"cuda(?::(\d+))?", location)
    if match is None:
        return None
    return _moved(storage, visible_gpus.current_device() if match[1] is None else visible_gpus.index_of(int(match[1])))


def _install_backward() -> None:
    """Backward passes run in the calling thread: PyTorch believes that there is one GPU, and would refuse others.

    The autograd engine starts its threads all the same, one for each device that there may be, and each of them sets
    its number of threads when it starts. After a fork the first to do so makes PyTorch's thread pool anew, and one that
    comes meanwhile finds none: an internal assertion of `ATen/ParallelOpenMP.cpp` (torch 2.13) that ends the process.
    So the calling thread makes the pool before the first pass of each process.
    """
    run_backward = torch.autograd.graph._engine_run_backward
    process_of_pool = 0

    @functools.wraps(run_backward)
    def in_calling_thread(*args: Any, **kwargs: Any) -> Any:
        nonlocal process_of_pool
        if process_of_pool != os.getpid():
            torch.set_num_threads(torch.get_num_threads())
            process_of_pool = os.getpid()
        was_enabled = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        try:
            return run_backward(*args, **kwargs)
        finally:
            torch._C._set_multithreading_enabled(was_enabled)

    torch.autograd.graph._engine_run_backward = in_calling_thread
    torch.autograd._engine_run_backward = in_calling_thread  # type: ignore[attr-defined]
