"""Memory that scripts look at or keep apart: pools, host memory, snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpu2npu.emulator.device import environment
from gpu2npu.emulator.device.memory import memory_history, memory_stats
from gpu2npu.emulator.device.visible_npus import DeviceLike, index_of

_numbers = iter(range(1, 1 << 62))
_blocks: dict[int, torch.Tensor] = {}  # of `caching_allocator_alloc`, by address


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """`memory_stats` with a level for each dot in its names."""
    result: dict[str, Any] = {}
    for name, value in memory_stats.memory_stats(device).items():
        *path, last = name.split(".")
        level = result
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return result


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """One segment for each live block: its address, device and sizes in bytes."""
    return memory_history.segments()


def get_allocator_backend() -> str:
    """ "native": blocks are NumPy's."""
    return "native"


def empty_virt_addr_cache() -> None:
    """Accepted; addresses are not cached."""


def host_empty_cache() -> None:
    """Accepted; pinned memory is not cached."""


def host_memory_stats() -> dict[str, int]:
    """Nothing: pinned memory is ordinary memory here and not counted."""
    return {}


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Nothing, as `host_memory_stats`."""
    return {}


def reset_accumulated_host_memory_stats() -> None:
    """Accepted; there is nothing to reset."""


def reset_peak_host_memory_stats() -> None:
    """Accepted; there is nothing to reset."""


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: Any = None) -> int:
    """The address of so many bytes on the device, until they are deleted."""
    block = torch.empty(size, dtype=torch.uint8, device=f"npu:{index_of(device)}")
    _blocks[block.data_ptr()] = block
    return block.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what `caching_allocator_alloc` gave. Raises RuntimeError for another address."""
    if _blocks.pop(mem_ptr, None) is None:
        raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")


def _set_allocator_settings(settings: str) -> None:
    """Accept settings as PYTORCH_NPU_ALLOC_CONF has them. Raises ValueError, RuntimeError: there are no such."""
    environment.check({"PYTORCH_NPU_ALLOC_CONF": settings})


class MemPool:
    """A pool's name; blocks of all pools come from the same memory here."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False) -> None:
        self.allocator = allocator
        self._id = (0, next(_numbers))
        self._users = 1

    @property
    def id(self) -> tuple[int, int]:
        """The pool's name."""
        return self._id

    def use_count(self) -> int:
        """1 and one more for each active `use_mem_pool`."""
        return self._users

    def snapshot(self) -> list[dict[str, Any]]:
        """Every live block of the process."""
        return memory_snapshot()


@contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Allocate from a pool within a block; a pool is only a name here."""
    index_of(device)
    pool._users += 1
    try:
        yield
    finally:
        pool._users -= 1


__all__ = [
    _name for _name, _value in globals().items() if getattr(_value, "__module__", "") == __name__ and _name[0] != "_"
]
