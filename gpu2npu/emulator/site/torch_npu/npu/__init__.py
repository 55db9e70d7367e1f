"""torch.npu: the questions that scripts and PyTorch itself ask about the NPU."""

import sys as _sys
from typing import Any as _Any

import torch as _torch

from gpu2npu.emulator.device.chip import (
    can_device_access_peer,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    ipc_collect,
    is_available,
    is_bf16_supported,
    utilization,
)
from gpu2npu.emulator.device.chip import is_compiled as _is_compiled
from gpu2npu.emulator.device.frontend import LEGACY_TYPES as _LEGACY_TYPES
from gpu2npu.emulator.device.lifecycle import init, is_initialized
from gpu2npu.emulator.device.lifecycle import init as _lazy_init
from gpu2npu.emulator.device.lifecycle import is_in_bad_fork as _is_in_bad_fork
from gpu2npu.emulator.device.ordinal import current_device, device, device_count, device_of, set_device
from gpu2npu.emulator.device.ordinal import index_of as _get_device_index
from gpu2npu.emulator.device.settings import (
    config,
    conv,
    current_blas_handle,
    get_autocast_dtype,
    get_sync_debug_mode,
    is_autocast_enabled,
    is_current_stream_capturing,
    matmul,
    set_autocast_dtype,
    set_autocast_enabled,
    set_compile_mode,
    set_option,
    set_sync_debug_mode,
)
from gpu2npu.emulator.device.streams import (
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

from . import amp, memory, random, streams
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import Event, Stream

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "config",
    "conv",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "matmul",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_device",
    "set_option",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "utilization",
]

# PyTorch and scripts also ask for these.
_PRIVATE = (_is_compiled, _is_in_bad_fork, _lazy_init)

FloatTensor = _LEGACY_TYPES["FloatTensor"]
DoubleTensor = _LEGACY_TYPES["DoubleTensor"]
HalfTensor = _LEGACY_TYPES["HalfTensor"]
BFloat16Tensor = _LEGACY_TYPES["BFloat16Tensor"]
LongTensor = _LEGACY_TYPES["LongTensor"]
IntTensor = _LEGACY_TYPES["IntTensor"]
ShortTensor = _LEGACY_TYPES["ShortTensor"]
CharTensor = _LEGACY_TYPES["CharTensor"]
ByteTensor = _LEGACY_TYPES["ByteTensor"]
BoolTensor = _LEGACY_TYPES["BoolTensor"]


def __getattr__(name: str) -> _Any:
    if name == "_initialized":  # torch.utils.checkpoint asks for it by this name
        return is_initialized()
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")


def _get_generator(device: _torch.device) -> _torch.Generator:
    """The device's own generator, as torch.distributed asks for it."""
    generator: _torch.Generator = default_generators[_get_device_index(device)]
    return generator


for _name in ("amp", "amp.autocast_mode", "amp.common", "amp.grad_scaler", "memory", "random", "streams"):
    _sys.modules[f"torch.npu.{_name}"] = _sys.modules[f"{__name__}.{_name}"]
