"""torch.npu: the questions that scripts and PyTorch itself ask about the NPU."""

import sys as _sys
from dataclasses import dataclass as _dataclass
from typing import Any as _Any

import torch as _torch

from gpu2npu.emulator.device import lifecycle as _lifecycle
from gpu2npu.emulator.device.frontend import LEGACY_TYPES as _LEGACY_TYPES
from gpu2npu.emulator.device.ordinal import (
    DeviceLike as _DeviceLike,
)
from gpu2npu.emulator.device.ordinal import (
    current_device,
    device,
    device_count,
    device_of,
    set_device,
)
from gpu2npu.emulator.device.ordinal import (
    index_of as _get_device_index,
)
from gpu2npu.emulator.device.streams import (
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)
from gpu2npu.emulator.soc import current_soc as _current_soc
from torch_npu.npu import amp, memory, random, streams
from torch_npu.npu.memory import *  # noqa: F403
from torch_npu.npu.random import *  # noqa: F403
from torch_npu.npu.streams import Event, Stream

globals().update(_LEGACY_TYPES)

init = _lazy_init = _lifecycle.init
is_initialized = _lifecycle.is_initialized
_is_in_bad_fork = _lifecycle.is_in_bad_fork


def __getattr__(name: str) -> _Any:
    if name == "_initialized":  # torch.utils.checkpoint asks for it by this name
        return is_initialized()
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")


def _get_generator(device: _torch.device) -> _torch.Generator:
    """The device's own generator, as torch.distributed asks for it."""
    return default_generators[_get_device_index(device)]


def is_available() -> bool:
    """Whether an NPU is visible."""
    return device_count() > 0


def _is_compiled() -> bool:
    return True


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the chip computes in bfloat16."""
    return _current_soc().bfloat16


def get_amp_supported_dtype() -> list[_torch.dtype]:
    """The dtypes that `torch.autocast("npu")` takes."""
    return [_torch.float16, _torch.bfloat16] if is_bf16_supported() else [_torch.float16]


def get_device_name(device: _DeviceLike = None) -> str:
    """The chip's name."""
    return get_device_properties(device).name


@_dataclass(frozen=True)
class _NPUDeviceProperties:
    """One NPU, as torch_npu describes it; memory in bytes."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    multi_processor_count: int


def get_device_properties(device: _DeviceLike = None) -> _NPUDeviceProperties:
    """Name, memory and cores of the device."""
    _get_device_index(device)
    soc = _current_soc()
    return _NPUDeviceProperties(
        name=soc.name,
        total_memory=soc.memory,
        cube_core_num=soc.cube_cores,
        vector_core_num=soc.vector_cores,
        L2_cache_size=soc.l2_cache,
        multi_processor_count=soc.cube_cores,
    )


def get_device_capability(device: _DeviceLike = None) -> None:
    """None, as on Ascend: chips have no compute capability."""
    _get_device_index(device)


def can_device_access_peer(device_id: _DeviceLike, peer_device_id: _DeviceLike) -> bool:
    """Whether one NPU reads the other's memory: all of a server's do, and none its own as a peer."""
    return _get_device_index(device_id) != _get_device_index(peer_device_id)


def ipc_collect() -> None:
    """Nothing to collect: emulated memory is not shared between processes."""


def utilization(device: _DeviceLike = None) -> int:
    """Percent of time the device computes; 0, since nothing is queued when this is asked."""
    _get_device_index(device)
    return 0


def current_blas_handle() -> None:
    """None, as on Ascend."""


def get_sync_debug_mode() -> int:
    """0: no warnings about synchronization, of which there is none."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Accepted; the emulated NPU never waits."""


def is_current_stream_capturing() -> bool:
    """False: there are no graphs to capture."""
    return False


def set_compile_mode(jit_compile: bool = False) -> None:
    """Accepted; kernels are NumPy functions and never compiled."""


def set_option(option: dict[str, _Any]) -> None:
    """Accepted when it is a dict, as torch_npu checks; there is nothing to tune."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")


def get_autocast_dtype() -> _torch.dtype:
    """The dtype of `torch.autocast("npu")` unless it is given one."""
    return _torch.get_autocast_dtype("npu")


def is_autocast_enabled() -> bool:
    """Whether autocast is on for the NPU."""
    return _torch.is_autocast_enabled("npu")


def set_autocast_enabled(enabled: bool) -> None:
    """Switch autocast for the NPU."""
    _torch.set_autocast_enabled("npu", enabled)


def set_autocast_dtype(dtype: _torch.dtype) -> None:
    """Set the dtype of autocast for the NPU."""
    _torch.set_autocast_dtype("npu", dtype)


class _Switches:
    """Attributes that scripts set and that change nothing here."""

    def __init__(self, **values: bool) -> None:
        self.__dict__.update(values)


matmul = _Switches(allow_hf32=False)
conv = _Switches(allow_hf32=True)
config = _Switches(allow_internal_format=False)

for _name in ("amp", "amp.autocast_mode", "amp.common", "amp.grad_scaler", "memory", "random", "streams"):
    _sys.modules[f"torch.npu.{_name}"] = _sys.modules[f"{__name__}.{_name}"]
