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

from .._absent import publish as _publish
from ._unsupported import NPUPluggableAllocator, change_current_allocator
from .memory_pools import *
from .memory_pools import _set_allocator_settings

_publish(globals())

# Named as PyTorch names them.
_PRIVATE = (_dump_snapshot, _record_memory_history, _set_allocator_settings, _snapshot)
