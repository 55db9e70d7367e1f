"""`torch.npu.memory_stats`, the counters under the names of PyTorch's caching allocators, and `memory_summary`."""

from __future__ import annotations

from collections import OrderedDict

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

_SEGMENT = 2 * 1024 * 1024  # bytes

Counter = tuple[int, int, int, int]  # current, peak, allocated and freed: numbers or bytes


def memory_stats(device: visible_npus.DeviceLike = None) -> OrderedDict[str, int]:
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
    return OrderedDict(sorted(result.items()))


_NAMES = ("all", "large_pool", "small_pool")
_SHOWN = {
    "allocated_bytes": "Allocated memory",
    "active_bytes": "Active memory",
    "requested_bytes": "Requested memory",
    "reserved_bytes": "NPU reserved memory",
    "inactive_split_bytes": "Non-releasable memory",
    "allocation": "Allocations",
    "active": "Active allocs",
    "segment": "NPU reserved segments",
    "inactive_split": "Non-releasable allocs",
}
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
    """The table of PyTorch about the device's memory; `abbreviated` without the lines of each pool."""
    index = visible_npus.index_of(device)
    stats = memory_stats(index)
    titles = " | ".join(f"{title:^10}" for title in ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"))
    lines = [
        "=" * 75,
        f"{'':18}PyTorch NPU memory summary, device ID {index:<18d} ",
        "-" * 75,
        f"{'':12}NPU OOMs: {stats['num_ooms']:<13d} | {'':7}npuMalloc retries: {stats['num_alloc_retries']:<9d}  ",
        "=" * 75,
        f"{'Metric':^23}| {titles} ",
    ]
    for metric, title in _SHOWN.items():
        lines.append("-" * 75)
        for part in _NAMES[:1] if abbreviated else _NAMES:
            numbers = [stats[f"{metric}.{part}.{each}"] for each in _METRICS]
            cells = [f"{memory.readable(each) if metric.endswith('bytes') else each:>10}" for each in numbers]
            label = title if part == "all" else f"      from {part.replace('_', ' ')}"
            lines.append(f" {label:<22}| {' | '.join(cells)} ")
    return "".join(f"|{line}|\n" for line in (*lines, "=" * 75))
