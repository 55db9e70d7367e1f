"""`torch.npu.memory_stats`, the counters under the names of PyTorch's caching allocators, and `memory_summary`."""

from __future__ import annotations

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

_SEGMENT = 2 * 1024 * 1024  # bytes

Counter = tuple[int, int, int, int]  # current, peak, allocated and freed: numbers or bytes


def memory_stats(device: visible_npus.DeviceLike = None) -> dict[str, int]:
    """Every counter that torch_npu has; sizes in bytes.

    Large blocks are counted apart, small ones are the rest; the peaks of the small pool are therefore upper bounds.
    There is no fragmentation: nothing is split, retried or oversized.
    """
    pool = memory.pool_of(visible_npus.index_of(device))
    large = pool.large
    blocks = (pool.allocations - pool.freed, pool.allocations, pool.freed)
    live, made, freed = blocks
    freed_bytes = pool.total - pool.allocated
    counters = {
        "allocation": _pools(
            (live, max(live, large.peak_blocks), made, freed),
            (large.blocks, large.peak_blocks, large.made, large.made - large.blocks),
        ),
        "allocated_bytes": _pools(
            (pool.allocated, pool.peak, pool.total, freed_bytes),
            (large.bytes, large.peak_bytes, large.made_bytes, large.made_bytes - large.bytes),
        ),
        "reserved_bytes": _reserved(pool.reserved, pool.peak_reserved, large.bytes, large.peak_bytes),
    }
    counters["segment"] = {name: _segments(counter) for name, counter in counters["reserved_bytes"].items()}
    counters["active"] = counters["allocation"]
    counters["active_bytes"] = counters["requested_bytes"] = counters["allocated_bytes"]
    counters["inactive_split"] = counters["inactive_split_bytes"] = dict.fromkeys(_NAMES, (0, 0, 0, 0))
    result = {}
    for name, pools in counters.items():
        for part, counter in pools.items():
            for metric, value in zip(_METRICS, counter, strict=True):
                result[f"{name}.{part}.{metric}"] = value
    for name in ("oversize_allocations", "oversize_segments"):
        result |= {f"{name}.{metric}": 0 for metric in _METRICS}
    made_segments = counters["segment"]["all"]
    result |= {
        "num_alloc_retries": 0,
        "num_ooms": pool.ooms,
        "max_split_size": -1,
        "num_sync_all_streams": 0,
        "num_device_alloc": made_segments[2],
        "num_device_free": made_segments[3],
    }
    return dict(sorted(result.items()))


_NAMES = ("all", "large_pool", "small_pool")
_METRICS = ("current", "peak", "allocated", "freed")


def _pools(every: Counter, large: Counter) -> dict[str, Counter]:
    """The counters of all blocks, of large ones, and of the rest."""
    current, _, made, freed = (a - b for a, b in zip(every, large, strict=True))
    return dict(zip(_NAMES, (every, large, (current, every[1], made, freed)), strict=True))


def _reserved(reserved: int, peak: int, large: int, large_peak: int) -> dict[str, Counter]:
    """Reserved bytes: segments that large blocks need, and the rest."""
    rounded, rounded_peak = (-(-size // _SEGMENT) * _SEGMENT for size in (large, large_peak))
    large_now, large_most = min(rounded, reserved), min(rounded_peak, peak)
    every = (reserved, peak, peak, peak - reserved)
    return _pools(every, (large_now, large_most, large_most, large_most - large_now))


def _segments(counter: Counter) -> Counter:
    """Bytes as numbers of segments."""
    current, peak, made, freed = (size // _SEGMENT for size in counter)
    return current, peak, made, freed


def memory_summary(device: visible_npus.DeviceLike = None, abbreviated: bool = False) -> str:
    """A few lines for people about the device's memory."""
    index = visible_npus.index_of(device)
    pool = memory.pool_of(index)
    lines = [
        f"PyTorch NPU memory summary, device ID {index}",
        f"Allocated memory: {memory.readable(pool.allocated)} (peak {memory.readable(pool.peak)})",
        f"Reserved memory: {memory.readable(pool.reserved)} (peak {memory.readable(pool.peak_reserved)})",
    ]
    if not abbreviated:
        lines.append(f"Allocations: {pool.allocations - pool.freed} live, {pool.allocations} made, {pool.freed} freed")
    return "\n".join(lines)
