"""`from torch_npu.contrib import transfer_to_npu`: run a CUDA script on the NPU without changing it.

Importing this module changes PyTorch for the process, in the places torch_npu 2.13.0 changes it: `torch.cuda` answers
for the NPU, devices and backends that are named "cuda" and "nccl" become "npu" and "hccl" on their way in, and
`torch.jit.script` does nothing. As there, every string with "cuda" in it is changed, a file name given to `torch.load`
too; and `torch.device("cuda")` stays as it is until a function is given it, so that comparing device types can fail.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from .. import npu, profiler

__all__: list[str] = []

_FACTORIES = [
    "arange",
    "as_tensor",
    "bartlett_window",
    "blackman_window",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "frombuffer",
    "from_file",
    "full",
    "full_like",
    "get_device_module",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "load",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "scalar_tensor",
    "set_default_device",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csr_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]
_TENSOR = ["new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros", "pin_memory", "to"]
_MODULE = ["to", "to_empty"]
_CUDA = [
    "caching_allocator_alloc",
    "can_device_access_peer",
    "current_stream",
    "default_stream",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
    "utilization",
]
_NAMED_DEVICES = ("device", "device_type", "map_location", "device_id")
_NUMBERS_ARE_DEVICES = ("to", "to_empty")

Function = Callable[..., Any]


def _translated(value: Any, numbers: bool = False) -> Any:
    """A device or backend named after CUDA as the NPU's; anything else as it is."""
    if isinstance(value, str):
        return value.replace("cuda", "npu").replace("nccl", "hccl")
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if numbers and isinstance(value, int) and not isinstance(value, bool):
        return f"npu:{value}"
    if isinstance(value, dict):
        return {_translated(key): _translated(item) if isinstance(item, str) else item for key, item in value.items()}
    return value


def _translating(function: Function) -> Function:
    """The function with its device arguments translated."""
    numbers = getattr(function, "__name__", "") in _NUMBERS_ARE_DEVICES

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in _NAMED_DEVICES:
            if kwargs.get(name) is not None:
                kwargs[name] = _translated(kwargs[name], numbers=True)
        if isinstance(kwargs.get("backend"), str):
            kwargs["backend"] = _translated(kwargs["backend"])
        if isinstance(kwargs.get("device_ids"), (list, tuple)):
            kwargs["device_ids"] = type(kwargs["device_ids"])(_translated(each) for each in kwargs["device_ids"])
        return function(*[_translated(value, numbers) for value in args], **kwargs)

    return call


def _translate(owner: Any, *names: str) -> None:
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, _translating(getattr(owner, name)))


class _StandsFor(type(torch.Generator)):  # type: ignore[misc]
    """The type of a class that takes the place of its base, whose objects count as its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        """Return whether an object is one of the base."""
        return isinstance(instance, cls.__mro__[1])


class _Generator(torch.Generator, metaclass=_StandsFor):
    """`torch.Generator` that takes a CUDA device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, _translated(device))  # type: ignore[call-arg]


class _Event(torch.Event, metaclass=_StandsFor):
    """`torch.Event` that takes a CUDA device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _translating(super().__new__)(cls, *args, **kwargs)


def _overlay(target: ModuleType, source: ModuleType) -> None:
    """Give a module of `torch.cuda` the names of its counterpart; submodules stay and get theirs in turn."""
    for name in source.__all__:
        value = getattr(source, name)
        if not isinstance(value, ModuleType):
            setattr(target, name, value)


def _move_cuda() -> None:
    """`torch.cuda` and what is below it answer for the NPU."""
    for name in ("", ".amp", ".amp.autocast_mode", ".amp.common", ".amp.grad_scaler", ".memory", ".random", ".streams"):
        _overlay(importlib.import_module(f"torch.cuda{name}"), importlib.import_module(f"torch_npu.npu{name}"))
    _translate(torch.cuda, *_CUDA)
    _translate(torch.cuda.random, "get_rng_state", "set_rng_state")

    class device(npu.device):  # type: ignore[misc]  # noqa: N801
        """`torch.npu.device` that takes a CUDA device's name too."""

        def __init__(self, device: Any) -> None:
            super().__init__(_translated(device))

    torch.cuda.device = device  # type: ignore[assignment, misc]
    torch.cuda.default_generators = npu.default_generators  # type: ignore[assignment]
    _translate(npu.memory, "_record_memory_history", "_snapshot")
    for name in ("_record_memory_history", "_snapshot", "_dump_snapshot"):
        setattr(torch.cuda.memory, name, getattr(npu.memory, name))
    torch.cuda.CUDAGraph = npu.NPUGraph  # type: ignore[assignment, misc]
    torch.cuda.DoubleTensor = npu.FloatTensor  # type: ignore[attr-defined]  # an NPU computes in float32 instead
    torch._utils._get_available_device_type = lambda: "npu" if npu.is_available() else None


def _move_tensors() -> None:
    """Factories, tensors, modules, generators and autocast take CUDA devices."""
    torch.utils._device._device_constructors()  # learns the factories by identity, before they change
    _translate(torch, *_FACTORIES)
    _translate(torch.Tensor, *_TENSOR)
    _translate(torch.nn.Module, *_MODULE)
    _translate(torch.fft, "fftfreq", "rfftfreq")
    _translate(torch.amp.autocast_mode.autocast, "__init__")
    _translate(torch.amp, "custom_fwd", "custom_bwd")
    _translate(torch, "get_autocast_dtype", "set_autocast_dtype")
    _translate(torch.utils._device.DeviceContext, "__init__")
    tensor, module = torch.Tensor, torch.nn.Module
    tensor.cuda, tensor.is_cuda = tensor.npu, tensor.is_npu  # type: ignore[attr-defined, method-assign, assignment]
    module.cuda = module.npu  # type: ignore[method-assign, assignment, attr-defined]
    torch.Generator, torch.Event = _Generator, _Event  # type: ignore[misc]
    torch.storage.TypedStorage.is_cuda = torch.storage.TypedStorage.is_npu  # type: ignore[attr-defined, assignment]
    _translate(torch.UntypedStorage, "__new__")
    parameter: Any = torch.nn.parameter
    lazy = parameter.UninitializedTensorMixin._allowed_methods
    lazy[:] = [tensor.to if each.__name__ == "to" else each for each in lazy]
    is_enabled, set_enabled = torch.is_autocast_enabled, torch.set_autocast_enabled
    torch.is_autocast_enabled = lambda device_type="npu": is_enabled(_translated(device_type))

    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        given = (*args, *kwargs.values())
        set_enabled(*(("npu", *given) if len(given) == 1 else map(_translated, given)))

    torch.set_autocast_enabled = set_autocast_enabled
    torch.get_autocast_gpu_dtype = npu.get_autocast_dtype
    torch.set_autocast_gpu_dtype = npu.set_autocast_dtype


def _move_distributed() -> None:
    """NCCL is HCCL, in groups, meshes and DistributedDataParallel."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import device_mesh, distributed_c10d

    distributed = torch.distributed
    init = _translating(distributed.init_process_group)
    distributed.init_process_group = distributed_c10d.init_process_group = init
    distributed.is_nccl_available = lambda: True
    distributed_c10d.Backend.default_device_backend_map.pop("cuda", None)
    _translate(distributed_c10d, "_new_group_with_tag")
    _translate(distributed.ProcessGroup, "_get_backend")
    for owner in (distributed, distributed_c10d):
        vars(owner)["ProcessGroupNCCL"] = vars(distributed)["ProcessGroupHCCL"]
    _translate(device_mesh, "init_device_mesh")
    distributed.init_device_mesh = device_mesh.init_device_mesh  # type: ignore[attr-defined]
    _translate(device_mesh.DeviceMesh, "__init__")
    _translate(torch.nn.parallel.DistributedDataParallel, "__init__")


def _move_profiler() -> None:
    """`torch.profiler` is torch_npu's; an experimental configuration for CUDA is dropped with a warning."""

    class profile(profiler.profile):  # type: ignore[misc]  # noqa: N801
        """torch_npu's profile without a configuration that is made for CUDA."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            config = kwargs.get("experimental_config")
            if config is not None and not isinstance(config, profiler._ExperimentalConfig):
                warnings.warn(
                    "experimental_config of torch.profiler.profile works with CUDA alone and is ignored; give it a "
                    "torch_npu.profiler._ExperimentalConfig",
                    stacklevel=2,
                )
                del kwargs["experimental_config"]
            super().__init__(*args, **kwargs)

    target: Any = torch.profiler
    target.profile, target.schedule = profile, profiler.schedule
    target.tensorboard_trace_handler = profiler.tensorboard_trace_handler
    target.ProfilerAction = profiler.ProfilerAction
    _translate(torch.autograd.profiler_util.Kernel, "__new__")

    class ProfilerActivity:
        """The activities of torch_npu, under CUDA's name too."""

        CPU = profiler.ProfilerActivity.CPU
        CUDA = NPU = profiler.ProfilerActivity.NPU

    target.ProfilerActivity = ProfilerActivity


def _disable_jit() -> None:
    warnings.warn(
        "transfer_to_npu disables torch.jit.script and torch.jit.script_method: they return what they are given. To "
        "use them, do not import transfer_to_npu.",
        RuntimeWarning,
        stacklevel=3,
    )
    torch.jit.script = lambda obj, *args, **kwargs: obj
    torch.jit.script_method = lambda function, *args, **kwargs: function  # type: ignore[attr-defined]


def _install() -> None:
    if os.environ.get("RANK", "0") == "0":
        warnings.warn(
            "transfer_to_npu: torch.cuda, Tensor.cuda and Module.cuda now mean the NPU; devices named cuda become npu "
            "and the backend nccl becomes hccl; torch.cuda.DoubleTensor is torch.npu.FloatTensor",
            ImportWarning,
            stacklevel=2,
        )
    _move_cuda()
    _move_tensors()
    _move_distributed()
    _move_profiler()
    _disable_jit()
    _translate(importlib.import_module("torch.utils.cpp_extension"), "include_paths")


_install()
