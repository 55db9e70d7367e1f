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
from gpu2npu.emulator.device.events import StreamContext
from gpu2npu.emulator.device.frontend import LEGACY_TYPES as _LEGACY_TYPES
from gpu2npu.emulator.device.lifecycle import init, is_initialized
from gpu2npu.emulator.device.lifecycle import init as _lazy_init
from gpu2npu.emulator.device.lifecycle import is_in_bad_fork as _is_in_bad_fork
from gpu2npu.emulator.device.settings import (
    config,
    conv,
    current_blas_handle,
    get_autocast_dtype,
    get_sync_debug_mode,
    is_autocast_enabled,
    matmul,
    set_autocast_dtype,
    set_autocast_enabled,
    set_option,
    set_sync_debug_mode,
)
from gpu2npu.emulator.device.streams import current_stream, default_stream, set_stream, stream, synchronize
from gpu2npu.emulator.device.visible_npus import current_device, device, device_count, device_of, set_device
from gpu2npu.emulator.device.visible_npus import index_of as _get_device_index

from . import aclnn, amp, autocast_utils, backends, deterministic, graphs, memory, npu_config, random, streams, utils
from ._unsupported import (
    NPUPluggableAllocator,
    change_current_allocator,
    npurt,
    obfuscation_calculate,
    obfuscation_finalize,
    obfuscation_initialize,
    restart_device,
    set_op_timeout_ms,
    stop_device,
)
from .backends import (
    enable_flash_sdp,
    enable_math_sdp,
    enable_mem_efficient_sdp,
    flash_sdp_enabled,
    math_sdp_enabled,
    mem_efficient_sdp_enabled,
    preferred_linalg_library,
    sdp_kernel,
)
from .deterministic import (
    are_compatible_impl_enabled,
    disable_deterministic_with_backward,
    enable_deterministic_with_backward,
    set_deterministic_level,
    use_compatible_impl,
)
from .graph_updates import NpuGraphOpHandler, register_npu_graph_handler
from .graphs import (
    NPUGraph,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    make_graphed_callables,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)
from .legacy_storages import (
    BFloat16Storage,
    BoolStorage,
    ByteStorage,
    CharStorage,
    DoubleStorage,
    FloatStorage,
    HalfStorage,
    IntStorage,
    LongStorage,
    ShortStorage,
)
from .memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_per_process_memory_fraction,
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
from .memory_pools import (
    MemPool,
    empty_virt_addr_cache,
    get_allocator_backend,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    memory_snapshot,
    memory_stats_as_nested_dict,
    reset_accumulated_host_memory_stats,
    reset_peak_host_memory_stats,
    use_mem_pool,
)
from .mstx import (
    mstx,
)
from .npu_config import (
    CubeMathType,
    get_device_limit,
    get_mm_bmm_format_nd,
    get_stream_limit,
    is_jit_compile_false,
    reset_stream_limit,
    set_compile_mode,
    set_device_limit,
    set_mm_bmm_format_nd,
    set_stream_limit,
)
from .operator_dump import finalize_dump, init_dump, set_aoe, set_dump
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
from .streams import Event, ExternalEvent, ExternalStream, Stream, SyncLaunchStream
from .utils import (
    check_uce_in_memory,
    clear_npu_overflow_flag,
    get_cann_version,
    get_npu_overflow_flag,
    get_soc_version,
    get_task_queue_enable,
    set_task_queue_enable,
    stress_detect,
)

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "CubeMathType",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "ExternalEvent",
    "ExternalStream",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "MemPool",
    "NPUGraph",
    "NPUPluggableAllocator",
    "NpuGraphOpHandler",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "aclnn",
    "amp",
    "are_compatible_impl_enabled",
    "autocast_utils",
    "backends",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "change_current_allocator",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "config",
    "conv",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "deterministic",
    "device",
    "device_count",
    "device_of",
    "disable_deterministic_with_backward",
    "empty_cache",
    "empty_virt_addr_cache",
    "enable_deterministic_with_backward",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "finalize_dump",
    "flash_sdp_enabled",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_cann_version",
    "get_device_capability",
    "get_device_limit",
    "get_device_name",
    "get_device_properties",
    "get_mm_bmm_format_nd",
    "get_npu_overflow_flag",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_soc_version",
    "get_stream_limit",
    "get_sync_debug_mode",
    "get_task_queue_enable",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "graphs",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "init_dump",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_jit_compile_false",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "math_sdp_enabled",
    "matmul",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_efficient_sdp_enabled",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "mstx",
    "npu_config",
    "npurt",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "preferred_linalg_library",
    "random",
    "register_npu_graph_handler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "reset_stream_limit",
    "restart_device",
    "sdp_kernel",
    "seed",
    "seed_all",
    "set_aoe",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_deterministic_level",
    "set_device",
    "set_device_limit",
    "set_dump",
    "set_mm_bmm_format_nd",
    "set_op_timeout_ms",
    "set_option",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_stream_limit",
    "set_sync_debug_mode",
    "set_task_queue_enable",
    "stop_device",
    "stream",
    "streams",
    "stress_detect",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
    "synchronize",
    "use_compatible_impl",
    "use_mem_pool",
    "utilization",
    "utils",
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


# `mstx` is a class of `torch.npu`, over the module of the same name.
_MODULES = (
    "aclnn",
    "amp",
    "amp.autocast_mode",
    "amp.common",
    "amp.grad_scaler",
    "autocast_utils",
    "backends",
    "deterministic",
    "graphs",
    "memory",
    "npu_config",
    "random",
    "streams",
    "utils",
)
for _name in _MODULES:
    _sys.modules[f"torch.npu.{_name}"] = _sys.modules[f"{__name__}.{_name}"]
