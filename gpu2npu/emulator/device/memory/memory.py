"""Accounting of device memory: which blocks live on which NPU, and what `torch.npu.memory_*` says about them.

Every block of an NPU is a NumPy array that lives as long as its storage, so a weak reference notices when it is freed.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from gpu2npu.emulator.device import environment, native, visible_npus
from gpu2npu.emulator.device.dispatch.support_table import release
from gpu2npu.emulator.shapes.caching import MIN_BLOCK, PADDING, rounded
from gpu2npu.emulator.shapes.figures import capacity
from gpu2npu.emulator.soc import current_soc

_FIRST_WITH_CLASS = (2, 10)  # before it, libtorch_npu.so knows no OutOfMemoryError: its wheels from 2.1.0 to 2.9.0
_SEGMENT = 2 * 1024 * 1024  # bytes; it reserves memory from the driver in segments
SMALL = 1024 * 1024  # bytes; larger blocks are of its large pool
_TO_ROUND = PADDING + MIN_BLOCK - 1


class _Count:
    """Numbers of blocks and their bytes: live, at most at once, and ever made."""

    __slots__ = ("blocks", "bytes", "made", "made_bytes", "peak_blocks", "peak_bytes")

    def __init__(self) -> None:
        self.blocks = self.bytes = self.made = self.made_bytes = 0
        self.peak_blocks = self.peak_bytes = 0

    def add(self, size: int) -> None:
        """A block is made."""
        self.blocks += 1
        self.bytes += size
        self.made += 1
        self.made_bytes += size
        self.peak_blocks = max(self.peak_blocks, self.blocks)
        self.peak_bytes = max(self.peak_bytes, self.bytes)

    def remove(self, size: int) -> None:
        """A block is freed."""
        self.blocks -= 1
        self.bytes -= size


class _Counters:
    """The part of an NPU's account that every block changes; all sizes in bytes.

    `total` is that of all blocks ever made. Up to `checked` allocated bytes there is neither a new peak nor a limit
    that is reached.
    """

    __slots__ = ("allocated", "allocations", "checked", "freed", "index", "reserved", "total")
    allocated: int
    allocations: int
    freed: int
    index: int
    reserved: int
    checked: int
    total: int


if not TYPE_CHECKING and native.account is not None:
    _Counters = native.account.Counters


class _Pool(_Counters):
    """The memory of one NPU; all sizes in bytes. `large` counts large blocks."""

    __slots__ = ("fraction", "large", "ooms", "peak", "peak_reserved")

    def __init__(self, index: int) -> None:
        self.index = index
        self.large, self.total, self.fraction = _Count(), 0, environment.memory_fraction()
        self.allocated = self.peak = self.checked = 0
        self.reserved = self.peak_reserved = self.allocations = self.freed = self.ooms = 0

    @property
    def limit(self) -> int:
        """The memory that this process may allocate, in bytes."""
        total = capacity(current_soc())
        return total if self.fraction == 1 else int(total * self.fraction)


class Block(weakref.ref):  # type: ignore[type-arg]
    """A live block: forgets itself when its array dies."""

    __slots__ = ("dtype", "key", "known", "pool", "shape", "size")
    pool: _Pool
    size: int
    key: int
    # Of a C-contiguous array that is counted whole; None for others.
    shape: tuple[int, ...] | None
    dtype: torch.dtype
    known: bool  # whether it holds values, in a shapes-only run; unset until something says so


class Listener(Protocol):
    """Whoever records memory: gets the address of each block, its counted size, the NPU, and that NPU's totals."""

    def allocated(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was made; `total` bytes are allocated with it."""

    def freed(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was freed; `total` bytes are allocated without it."""

    def refused(self, size: int, index: int) -> None:
        """There was no room for `size` bytes."""


class _Blocks(dict[int, Block]):
    """Blocks by address."""

    __slots__ = ()


class _WatchedBlocks(_Blocks):
    """The same while somebody records: `blocks` changes its class, so that otherwise nothing is tested or called."""

    __slots__ = ()

    def __setitem__(self, key: int, block: Block) -> None:
        super().__setitem__(key, block)
        pool = block.pool
        for listener in tuple(_listeners):
            listener.allocated(key, block.size, pool.index, pool.allocated + block.size, pool.reserved)

    def __delitem__(self, key: int) -> None:
        block = self[key]
        super().__delitem__(key)
        pool = block.pool
        for listener in tuple(_listeners):
            listener.freed(key, block.size, pool.index, pool.allocated - block.size, pool.reserved)


_pools: dict[int, _Pool] = {}
# The live blocks of all NPUs by host address, where a tensor finds its array again; empty ones have a key of their own.
blocks = _Blocks()
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Report every block to a listener from now on."""
    _listeners.append(listener)
    blocks.__class__ = _WatchedBlocks


def stop_listening(listener: Listener) -> None:
    """Report no more to it."""
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners:
        blocks.__class__ = _Blocks


def pool_of(index: int) -> _Pool:
    """The account of one NPU; not to be changed elsewhere."""
    pool = _pools.get(index)
    if pool is None:
        pool = _pools.setdefault(index, _Pool(index))
    return pool


def pools() -> dict[int, _Pool]:
    """The accounts of the NPUs that this process has used, by their numbers; not to be changed."""
    return dict(_pools)


def _free(block: Block) -> None:
    pool = block.pool
    size = block.size
    del blocks[block.key]
    pool.allocated -= size
    pool.freed += 1
    if size > SMALL:
        large_freed(pool, size)


def large_freed(pool: _Pool, size: int) -> None:
    """Count a large block no more."""
    pool.large.remove(size)


def admit(pool: _Pool, size: int) -> bool:
    """Return whether an NPU has room for a block of `size` bytes, and count what only a few blocks change."""
    allocated = pool.allocated + size
    if allocated > pool.checked:
        if allocated > pool.limit:
            return False
        pool.checked = allocated
        pool.peak = max(pool.peak, allocated)
    if allocated > pool.reserved:
        pool.reserved = -(-allocated // _SEGMENT) * _SEGMENT
        pool.peak_reserved = max(pool.peak_reserved, pool.reserved)
    if size > SMALL:
        pool.large.add(size)
    return True


def hold(values: np.ndarray[Any, Any], address: int, dtype: torch.dtype, index: int) -> None:
    """Count the array's bytes as allocated on npu:`index` for as long as it lives.

    Args:
        values: Owns the memory.
        address: Where it begins.
        dtype: What a tensor over it has.
        index: The NPU.

    Raises:
        torch.OutOfMemoryError: The NPU has no room for them.
    """
    size = (values.nbytes + _TO_ROUND) & -MIN_BLOCK if values.nbytes else 0  # `rounded`, without a call
    pool = _pools.get(index) or pool_of(index)
    allocated = pool.allocated + size
    is_common = allocated <= pool.checked and allocated <= pool.reserved and size <= SMALL
    if not is_common and not admit(pool, size):
        raise out_of_memory(values.nbytes, index)
    block = Block(values, _free)
    block.pool = pool
    block.size = size
    block.shape = values.shape if values.flags.c_contiguous else None
    block.dtype = dtype
    block.key = key = address if size else -id(block)
    blocks[key] = block
    pool.allocated += size  # without a call since it is read, so that no other thread's update is lost
    pool.allocations += 1
    pool.total += size


def resize(address: int, size: int, index: int) -> None:
    """Count `size` bytes for the block that begins at `address`, as `UntypedStorage.resize_` asks.

    Raises:
        torch.OutOfMemoryError: The NPU has no room for them.
    """
    block = blocks.get(address)
    if block is None:
        return
    pool, before = block.pool, block.size
    counted = rounded(size) if size else 0
    allocated = pool.allocated - before + counted
    if allocated > pool.limit:
        raise out_of_memory(size, index)
    if block.size > SMALL:
        pool.large.remove(block.size)
    if counted > SMALL:
        pool.large.add(counted)
    pool.total += max(counted - block.size, 0)
    block.size = counted
    values = block()
    block.shape = (
        values.shape if values is not None and values.flags.c_contiguous and counted >= values.nbytes else None
    )
    pool.allocated += counted - before
    pool.peak = max(pool.peak, allocated)
    if allocated > pool.reserved:
        pool.reserved = -(-allocated // _SEGMENT) * _SEGMENT
        pool.peak_reserved = max(pool.peak_reserved, pool.reserved)
    for listener in tuple(_listeners):
        if before:
            listener.freed(address, before, index, allocated - counted, pool.reserved)
        if counted:
            listener.allocated(address, counted, index, allocated, pool.reserved)


def check_room(size: int, index: int) -> None:
    """Raise `torch.OutOfMemoryError` when npu:`index` has no room for `size` more bytes."""
    if (pool := pool_of(index)).allocated + size > pool.limit:
        raise out_of_memory(size, index)


def _error_class() -> type[RuntimeError]:
    """Return the class of error that the release to imitate raises: a plain RuntimeError before 2.10."""
    imitated = release()
    is_plain = imitated is not None and tuple(map(int, imitated.split(".")[:2])) < _FIRST_WITH_CLASS
    return RuntimeError if is_plain else torch.OutOfMemoryError


def out_of_memory(size: int, index: int) -> RuntimeError:
    """The error of torch_npu's caching allocator, in the words of 2.13's `libtorch_npu.so`; counted as `num_ooms`."""
    pool = pool_of(index)
    pool.ooms += 1
    for listener in tuple(_listeners):
        listener.refused(size, index)
    total = capacity(current_soc())
    return _error_class()(
        f"NPU out of memory. Tried to allocate {readable(size)} (NPU {index}; {readable(total)} total capacity; "
        f"{readable(pool.allocated)} already allocated; {readable(pool.allocated)} current active; "
        f"{readable(max(total - pool.allocated, 0))} free; {readable(pool.reserved)} reserved in total by PyTorch)."
        "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
    )


def is_exhaustion(error: Exception) -> bool:
    """Return whether NumPy, or torch's allocator of host memory, says that the host has no more."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error)


def exhausted(error: Exception, index: int) -> RuntimeError:
    """Return the error for a lack of host memory on npu:`index`: more than the chip has, or than this machine has."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is not None and dtype is not None:
        size = math.prod(shape) * dtype.itemsize
        if pool_of(index).allocated + size > pool_of(index).limit:
            return out_of_memory(size, index)
    return _error_class()(f"NPU out of memory: the emulated NPU {index} lives in host memory. {error}")


def readable(size: int) -> str:
    """A number of bytes with two decimals in the largest unit that it reaches."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def memory_allocated(device: visible_npus.DeviceLike = None) -> int:
    """Bytes of live tensors on the device."""
    return pool_of(visible_npus.index_of(device)).allocated


def max_memory_allocated(device: visible_npus.DeviceLike = None) -> int:
    """The most bytes that were live at once since the start or the last reset."""
    return pool_of(visible_npus.index_of(device)).peak


def memory_reserved(device: visible_npus.DeviceLike = None) -> int:
    """Bytes that the caching allocator keeps: the peak since the last `empty_cache`, in segments."""
    return pool_of(visible_npus.index_of(device)).reserved


def max_memory_reserved(device: visible_npus.DeviceLike = None) -> int:
    """The most bytes that were reserved since the start or the last reset."""
    return pool_of(visible_npus.index_of(device)).peak_reserved


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: visible_npus.DeviceLike = None) -> None:
    """Start the peaks again from what is live now."""
    pool = pool_of(visible_npus.index_of(device))
    pool.peak = pool.checked = pool.allocated
    pool.peak_reserved = pool.reserved
    pool.large.peak_blocks, pool.large.peak_bytes = pool.large.blocks, pool.large.bytes


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: visible_npus.DeviceLike = None) -> None:
    """Start the counts of allocations again from what is live now."""
    pool = pool_of(visible_npus.index_of(device))
    pool.allocations -= pool.freed
    pool.freed = 0
    pool.total = pool.allocated
    pool.large.made, pool.large.made_bytes = pool.large.blocks, pool.large.bytes


def empty_cache() -> None:
    """Give back what is reserved and not in use, on every device."""
    for pool in _pools.values():
        pool.reserved = -(-pool.allocated // _SEGMENT) * _SEGMENT


def mem_get_info(device: visible_npus.DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    total = capacity(current_soc())
    return total - pool_of(visible_npus.index_of(device)).reserved, total


def set_per_process_memory_fraction(fraction: float, device: visible_npus.DeviceLike = None) -> None:
    """Let this process allocate no more than a share of the device; what it has already stays.

    Raises:
        TypeError: `fraction` is not a float, which torch_npu asks for.
        ValueError: It is not between 0 and 1.
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    pool = pool_of(visible_npus.index_of(device))
    pool.fraction, pool.checked = fraction, 0


def get_per_process_memory_fraction(device: visible_npus.DeviceLike = None) -> float:
    """Return the fraction that `set_per_process_memory_fraction` set, 1.0 at first."""
    return pool_of(visible_npus.index_of(device)).fraction
