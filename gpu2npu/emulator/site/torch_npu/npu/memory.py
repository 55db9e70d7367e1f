"""torch.npu.memory: what lives on the NPU."""

from gpu2npu.emulator.device.memory.memory import (
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from gpu2npu.emulator.device.memory.memory_history import dump_snapshot as _dump_snapshot
from gpu2npu.emulator.device.memory.memory_history import record_memory_history as _record_memory_history
from gpu2npu.emulator.device.memory.memory_history import snapshot as _snapshot
from gpu2npu.emulator.device.memory.memory_stats import memory_stats, memory_summary

from ._unsupported import (
    NPUPluggableAllocator,
    change_current_allocator,
)
from .memory_pools import (
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
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
from .memory_pools import set_allocator_settings as _set_allocator_settings

__all__ = [
    "MemPool",
    "NPUPluggableAllocator",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "change_current_allocator",
    "empty_cache",
    "empty_virt_addr_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]

# Named as PyTorch names them.
_PRIVATE = (_dump_snapshot, _record_memory_history, _set_allocator_settings, _snapshot)
