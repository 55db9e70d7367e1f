"""Teaches PyTorch's Python functions, when the device is installed, what they cannot know of a Python backend.

- C++ believes that the current device of such a backend is number 0: a bare "npu" in `to` and `tensor` is completed.
- Pinned memory needs an allocator in C++. Host memory is the NPU's memory here, so pinned is a mark on a copy.
- Compiling for the device says that it cannot.
- In releases in which a number is a device of CUDA's, it is refused as PyTorch refuses it without CUDA.
- Printing formats values on the host, where a real NPU would run a dozen small operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _tensor_str
from torch.jit import _builtins
from torch.optim import _functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device

from gpu2npu.emulator.device import exchange, pinning, randomness, streams, visible_npus
from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.emulator.device.legacy_types import LegacyTensorType, legacy_types
from gpu2npu.emulator.device.memory import memory, memory_stats
from gpu2npu.support.conditions import CallFacts
from gpu2npu.support.facts import fact_for
from gpu2npu.support.releases import RELEASES


def install() -> None:
    """Change torch's functions, once a process."""
    # `with torch.device(...)` knows factories by identity: let it learn them before they are changed.
    _device._device_constructors()
    for name in pinning.FACTORIES:
        _replace(name, pinning.pinning)
    _refuse_numbers()
    torch.Tensor.to = _completing(torch.Tensor.to, makes_tensors=False)  # type: ignore[method-assign, assignment]
    # The parameters of lazy modules know by identity what may be called before they have a shape.
    known = torch.nn.parameter.UninitializedParameter._allowed_methods  # type: ignore[attr-defined]
    known += [torch.Tensor.to, torch.Tensor.npu]  # type: ignore[attr-defined]
    for name in ("tensor", "as_tensor", "asarray"):
        _replace(name, _completing)
    torch.Tensor.type = _typing(torch.Tensor.type)  # type: ignore[method-assign, assignment]
    torch.set_default_tensor_type = _defaulting(torch.set_default_tensor_type)
    torch.Tensor.pin_memory = pinning.pin_memory  # type: ignore[method-assign, assignment]
    torch.Tensor.is_pinned = pinning.is_pinned  # type: ignore[method-assign, assignment]
    exchange.install()
    torch.Generator = randomness.Generator  # type: ignore[misc, assignment]
    torch.Event = streams.AnyEvent  # type: ignore[misc]
    format_values = _tensor_str._tensor_str
    _tensor_str._tensor_str = lambda tensor, indent: format_values(_on_host(tensor), indent)
    for name in _ACROSS_CARDS:
        if not hasattr(torch._C, name):
            setattr(torch._C, name, _only_with_cuda(name))
    _functional.sparse_adam = _explaining(_functional.sparse_adam)
    _install_accelerator()


# What torch.nn.parallel.scatter, gather, replicate and DataParallel call, which only a build for CUDA has.
_ACROSS_CARDS = ("_scatter", "_gather", "_broadcast", "_broadcast_coalesced")


def _only_with_cuda(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError(
            f"torch._C.{name}: PyTorch without CUDA, which torch_npu is for, copies nothing across the cards of one "
            "process; run a process for each NPU, with DistributedDataParallel"
        )

    return call


def _explaining(function: Callable[..., None]) -> Callable[..., None]:
    """SparseAdam's step, which raises the known fact about it where the moments, masked, have lost their zeros."""

    @functools.wraps(function)
    def step(params: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> None:
        try:
            function(params, *args, **kwargs)
        except RuntimeError as error:
            fact = fact_for(_SPARSE_ADAM, RELEASES[-1])
            if fact is None or not str(error).startswith("The size of tensor") or params[0].device.type != "npu":
                raise
            advice = f"{fact.advice[:1].upper()}{fact.advice[1:]}"
            raise limits.LimitError(f"{_SPARSE_ADAM}: {fact.evidence}. {advice}.") from None

    return step


_SPARSE_ADAM = "torch.optim.SparseAdam"


def _refuse_numbers() -> None:
    """Refuse numbers as devices, where the release takes them for CUDA's."""
    if limits.refused("torch.Tensor.to", CallFacts({"device": 0})) is None:
        return
    torch.Tensor.to = _with_named_device(torch.Tensor.to, 1)  # type: ignore[method-assign, assignment]
    torch.nn.Module.to = _with_named_device(torch.nn.Module.to, 1)  # type: ignore[method-assign]
    for name in dict.fromkeys((*pinning.FACTORIES, "as_tensor", "asarray")):
        _replace(name, functools.partial(_with_named_device, position=None))


def _with_named_device(function: Callable[..., Any], position: int | None) -> Callable[..., Any]:
    """A function that refuses a number as its argument `device`, which may be the one of a position."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device") if position is None or len(args) <= position else args[position]
        if type(device) is int:
            limits.refuse("torch.Tensor.to", CallFacts({"device": device}))
        return function(*args, **kwargs)

    return call


def _replace(name: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Change a function of torch; TorchScript, which knows operators by the function's identity, learns the new one."""
    original = getattr(torch, name)
    changed = change(original)
    setattr(torch, name, changed)
    operator = _builtins._find_builtin(original)
    if operator is not None:
        _builtins._register_builtin(changed, operator)


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu() if tensor.device.type == "npu" else tensor


def _complete(value: Any) -> Any:
    """A bare "npu" with the current device's number; anything else as it is."""
    if isinstance(value, torch.device):
        return (
            torch.device("npu", visible_npus.current_device()) if value.type == "npu" and value.index is None else value
        )
    return torch.device("npu", visible_npus.current_device()) if isinstance(value, str) and value == "npu" else value


def _completing(function: Callable[..., Any], makes_tensors: bool = True) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if visible_npus.current_device():
            args = tuple(map(_complete, args))
            if "device" in kwargs:
                kwargs["device"] = _complete(kwargs["device"])
            elif makes_tensors and torch._C._len_torch_function_stack():  # perhaps within `with torch.device("npu")`
                for mode in _get_current_function_mode_stack():
                    if isinstance(mode, _device.DeviceContext):
                        kwargs["device"] = _complete(mode.device)
        return function(*args, **kwargs)

    return call


def _typing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if isinstance(dtype, LegacyTensorType):
            dtype = dtype.name
        if isinstance(dtype, str) and dtype.startswith("torch.npu.") and tensor.device.type != "npu":
            tensor = tensor.to(torch.device("npu", visible_npus.current_device()))
        return function(tensor, dtype, non_blocking, **kwargs)

    return call


def _defaulting(function: Callable[..., None]) -> Callable[..., None]:
    """`torch.set_default_tensor_type` with the types of `torch.npu`, for which C++ has no type objects."""
    on_npu = False

    @functools.wraps(function)
    def call(kind: Any) -> None:
        nonlocal on_npu
        if isinstance(kind, str):
            kind = LEGACY_TYPES.get(kind.removeprefix("torch.npu."), kind) if "torch.npu." in kind else kind
        if isinstance(kind, LegacyTensorType):
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("npu")
            on_npu = True
            return
        if on_npu:
            torch.set_default_device(None)
            on_npu = False
        function(kind)

    return call


_MEMORY = (
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
)


def _install_accelerator() -> None:
    """`torch.accelerator` asks C++, which believes that there is one NPU."""
    accelerator: Any = torch.accelerator
    accelerator.device_count = visible_npus.device_count
    accelerator.is_available = lambda: visible_npus.device_count() > 0
    for name in ("current_device_index", "current_device_idx"):
        setattr(accelerator, name, visible_npus.current_device)
    for name in ("set_device_index", "set_device_idx"):
        setattr(accelerator, name, visible_npus.set_device)
    accelerator.current_stream = streams.current_stream
    accelerator.set_stream = streams.set_stream_with_device
    accelerator.synchronize = streams.synchronize
    for name in _MEMORY:
        if hasattr(accelerator, name):  # newer releases of PyTorch have more of them
            function = memory_stats.memory_stats if name == "memory_stats" else getattr(memory, name)
            setattr(accelerator, name, function)
            setattr(accelerator.memory, name, function)
    if hasattr(accelerator, "empty_host_cache"):
        # Pinned memory is ordinary memory here: nothing is cached. PyTorch's own asks an allocator in C++.
        accelerator.empty_host_cache = accelerator.memory.empty_host_cache = lambda: None
    if hasattr(accelerator, "get_memory_info"):
        accelerator.get_memory_info = accelerator.memory.get_memory_info = memory.mem_get_info


LEGACY_TYPES = legacy_types(visible_npus.NPUS)
