"""`from torch_npu.contrib import transfer_to_npu`: run a CUDA script on the NPU without changing it.

Importing this module changes PyTorch for the process, in the places torch_npu 2.13.0 changes it: `torch.cuda` answers
for the NPU, devices and backends that are named "cuda" and "nccl" become "npu" and "hccl" on their way in, and
`torch.jit.script` does nothing. As there, every string with "cuda" in it is changed, a file name given to `torch.load`
too; and `torch.device("cuda")` stays as it is until a function is given it, so that comparing device types can fail.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import os
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .. import _C, npu, profiler

__all__: list[str] = []

# Functions that take devices, by what has them.
_OF_DEVICES: dict[str, list[str]] = json.loads(Path(__file__).with_name("device_functions.json").read_text())
_NAMED_DEVICES = ("device", "device_type", "map_location", "device_id")
_NUMBERS_ARE_DEVICES = ("to", "to_empty")

Function = Callable[..., Any]

_cuda_is_available, _cuda_device_count = torch.cuda.is_available, torch.cuda.device_count


def _replace_cuda_to_npu_in_dict(device_dict: dict[Any, Any]) -> dict[Any, Any]:
    """A dict, such as a map_location, with the NPU for CUDA in its keys and values that are strings."""
    strings = (
        (key, value.replace("cuda", "npu") if isinstance(value, str) else value) for key, value in device_dict.items()
    )
    return {key.replace("cuda", "npu") if isinstance(key, str) else key: value for key, value in strings}


def _translated(value: Any, numbers: bool = False) -> Any:
    """A device named after CUDA as the NPU's; anything else as it is."""
    if isinstance(value, str):
        return value.replace("cuda", "npu")
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if numbers and isinstance(value, int) and not isinstance(value, bool):
        return f"npu:{value}"
    if isinstance(value, dict):
        return _replace_cuda_to_npu_in_dict(value)
    return value


def _wrapper_cuda(fn: Function) -> Function:
    """The function with its device arguments translated."""
    numbers = getattr(fn, "__name__", "") in _NUMBERS_ARE_DEVICES

    @functools.wraps(fn)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        for name in _NAMED_DEVICES:
            if kwargs.get(name) is not None:
                kwargs[name] = _translated(kwargs[name], numbers=True)
        if isinstance(kwargs.get("device_ids"), (list, tuple)):
            kwargs["device_ids"] = type(kwargs["device_ids"])(_translated(each) for each in kwargs["device_ids"])
        return fn(*[_translated(value, numbers) for value in args], **kwargs)

    return decorated


def _wrapper_hccl(fn: Function) -> Function:
    """The function with HCCL for NCCL, and NPUs for CUDA, in its strings and in the argument `backend`."""

    def translated(value: Any) -> Any:
        return value.replace("nccl", "hccl").replace("cuda", "npu") if isinstance(value, str) else value

    @functools.wraps(fn)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if "backend" in kwargs:
            kwargs["backend"] = translated(kwargs["backend"])
        return fn(*map(translated, args), **kwargs)

    return decorated


def _wrapper_profiler(fn: Function) -> Function:
    """The function without an experimental configuration that is made for CUDA."""

    @functools.wraps(fn)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        config = kwargs.get("experimental_config")
        if config is not None and not isinstance(config, profiler._ExperimentalConfig):
            logging.warning(
                "experimental_config of torch.profiler.profile works with CUDA alone and is ignored; give it a "
                "torch_npu.profiler._ExperimentalConfig"
            )
            del kwargs["experimental_config"]
        return fn(*args, **kwargs)

    return decorated


def _wrapper_libraries_func(fn: Function) -> Function:
    """The function with the answer of `torch.cuda.is_available` that PyTorch had: libraries that know NPUs ask it."""

    @functools.wraps(fn)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        answers = torch.cuda.is_available, torch.cuda.device_count  # the first may call the second
        torch.cuda.is_available, torch.cuda.device_count = _cuda_is_available, _cuda_device_count
        try:
            return fn(*args, **kwargs)
        finally:
            torch.cuda.is_available, torch.cuda.device_count = answers

    return decorated


def _do_wrapper_libraries_func(json_dict: dict[str, Any]) -> None:
    """Wrap the functions of installed libraries, each entry a least version and full names."""
    for library, (least, *names) in json_dict.items():
        try:
            version = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
        if _numbers(version) < _numbers(least):
            continue
        for full_name in names:
            *path, name = full_name.split(".")
            with contextlib.suppress(Exception):  # the library of another version, or one that does not import
                owner = pkgutil.resolve_name(".".join(path))
                setattr(owner, name, _wrapper_libraries_func(getattr(owner, name)))


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)[:3]]


def _device_wrapper(enter_fn: Any, white_list: Iterable[str]) -> None:
    """Wrap the functions of a module or class that it has."""
    for name in white_list:
        if hasattr(enter_fn, name):
            setattr(enter_fn, name, _wrapper_cuda(getattr(enter_fn, name)))


class _StandsFor(type(torch.Generator)):  # type: ignore[misc]
    """The type of a class that takes the place of its base, whose objects count as its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        """Return whether an object counts as one of the base."""
        return isinstance(instance, cls.__mro__[1])


class _Generator(torch.Generator, metaclass=_StandsFor):
    """`torch.Generator` that takes a CUDA device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, _translated(device))  # type: ignore[call-arg]


class _Event(torch.Event):
    """`torch.Event` that takes a CUDA device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _wrapper_cuda(super().__new__)(cls, *args, **kwargs)


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
    _device_wrapper(torch.cuda, _OF_DEVICES["torch.cuda"])
    _device_wrapper(torch.cuda.random, ["get_rng_state", "set_rng_state"])

    class device(npu.device):  # type: ignore[misc]  # noqa: N801
        """`torch.npu.device` that takes a CUDA device's name too."""

        def __init__(self, device: Any) -> None:
            super().__init__(_translated(device))

    torch.cuda.device = device  # type: ignore[assignment, misc]
    torch.cuda.default_generators = npu.default_generators  # type: ignore[assignment]
    _device_wrapper(npu.memory, ["_record_memory_history", "_snapshot"])
    for name in ("_record_memory_history", "_snapshot", "_dump_snapshot"):
        setattr(torch.cuda.memory, name, getattr(npu.memory, name))
    for name in ("autocast_mode", "common", "grad_scaler"):
        setattr(torch.cuda.amp, name, getattr(npu.amp, name))
    torch._C._host_emptyCache = _C._npu_hostEmptyCache  # type: ignore[attr-defined]
    torch.cuda.CUDAGraph = npu.NPUGraph  # type: ignore[assignment, misc]
    torch.cuda.DoubleTensor = npu.FloatTensor  # type: ignore[attr-defined]  # an NPU computes in float32 instead
    torch._utils._get_available_device_type = lambda: "npu" if npu.is_available() else None


def _move_tensors() -> None:
    """Factories, tensors, modules, generators and autocast take CUDA devices."""
    torch.utils._device._device_constructors()  # learns the factories by identity, before they change
    _device_wrapper(torch, _OF_DEVICES["torch"])
    _device_wrapper(torch.Tensor, _OF_DEVICES["torch.Tensor"])
    _device_wrapper(torch.nn.Module, _OF_DEVICES["torch.nn.Module"])
    _device_wrapper(torch.fft, ["fftfreq", "rfftfreq"])
    _device_wrapper(torch.amp.autocast_mode.autocast, ["__init__"])
    _device_wrapper(torch.amp, ["custom_fwd", "custom_bwd"])
    _device_wrapper(torch, ["get_autocast_dtype", "set_autocast_dtype"])
    _device_wrapper(torch.utils._device.DeviceContext, ["__init__"])
    tensor, module = torch.Tensor, torch.nn.Module
    tensor.cuda, tensor.is_cuda = tensor.npu, tensor.is_npu  # type: ignore[attr-defined, method-assign, assignment]
    module.cuda = module.npu  # type: ignore[method-assign, assignment, attr-defined]
    torch.Generator, torch.Event = _Generator, _Event  # type: ignore[misc]
    torch.storage.TypedStorage.is_cuda = torch.storage.TypedStorage.is_npu  # type: ignore[attr-defined, assignment]
    _device_wrapper(torch.UntypedStorage, ["__new__"])
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


def _del_nccl_device_backend_map() -> None:
    """No backend is CUDA's by default."""
    getattr(torch.distributed.Backend, "default_device_backend_map", {}).pop("cuda", None)


def _move_distributed() -> None:
    """NCCL is HCCL, in groups, meshes and DistributedDataParallel."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import device_mesh, distributed_c10d

    distributed = torch.distributed
    init = _wrapper_cuda(_wrapper_hccl(distributed.init_process_group))
    distributed.init_process_group = distributed_c10d.init_process_group = init
    distributed.is_nccl_available = lambda: True
    _del_nccl_device_backend_map()
    distributed_c10d._new_group_with_tag = _wrapper_hccl(distributed_c10d._new_group_with_tag)
    _device_wrapper(distributed.ProcessGroup, ["_get_backend"])
    for owner in (distributed, distributed_c10d):
        vars(owner)["ProcessGroupNCCL"] = vars(distributed)["ProcessGroupHCCL"]
    _device_wrapper(device_mesh, ["init_device_mesh"])
    distributed.init_device_mesh = device_mesh.init_device_mesh  # type: ignore[attr-defined]
    _device_wrapper(device_mesh.DeviceMesh, ["__init__"])
    _device_wrapper(torch.nn.parallel.DistributedDataParallel, ["__init__"])


def _move_profiler() -> None:
    """`torch.profiler` is torch_npu's; an experimental configuration for CUDA is dropped with a warning."""

    target: Any = torch.profiler
    target.profile, target.schedule = _wrapper_profiler(profiler.profile), profiler.schedule
    target.tensorboard_trace_handler = profiler.tensorboard_trace_handler
    target.ProfilerAction = profiler.ProfilerAction
    _device_wrapper(torch.autograd.profiler_util.Kernel, ["__new__"])

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
    _device_wrapper(importlib.import_module("torch.utils.cpp_extension"), ["include_paths"])
    _do_wrapper_libraries_func(json.loads(Path(__file__).with_name("apis_config.json").read_text()))


_install()
