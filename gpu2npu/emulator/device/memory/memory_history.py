"""`torch.npu.memory._record_memory_history`, `_snapshot` and `_dump_snapshot`: who allocated what, and when.

The pickle is that of PyTorch's allocators, which `python -m torch.cuda._memory_viz` and pytorch.org/memory_viz read.
Each live block is a segment of its own, for the emulated NPU's memory is not cut from larger pieces.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.memory import memory

Frame = dict[str, Any]

_ENABLED = (None, "state", "all")
_CONTEXTS = (None, "state", "alloc", "all")
_STACKS = ("python", "all")
_MACHINERY = (str(Path(__file__).parents[2]), str(Path(torch.__file__).parent / "_ops.py"))


class _History:
    """The last allocations and releases, and where the live blocks come from (a `memory.Listener`)."""

    def __init__(self, entries: int, traced: bool, context: str | None) -> None:
        self.traced, self.context = traced, context
        self.entries: deque[tuple[int, dict[str, Any]]] = deque(maxlen=entries)  # with the number of the NPU
        self.frames: dict[int, list[Frame]] = {}

    def allocated(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was made."""
        frames = _frames() if self.context is not None else []
        if frames:
            self.frames[address] = frames
        self._note("alloc", address, size, index, frames if self.context != "state" else [])

    def freed(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was freed."""
        self.frames.pop(address, None)
        frames = _frames() if self.context == "all" and self.traced else []
        self._note("free_requested", address, size, index, frames)
        self._note("free_completed", address, size, index, frames)

    def refused(self, size: int, index: int) -> None:
        """There was no room, which the history does not hold."""

    def _note(self, action: str, address: int, size: int, index: int, frames: list[Frame]) -> None:
        if self.traced:
            entry = {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames}
            self.entries.append((index, {**entry, "time_us": time.time_ns() // 1000}))


_history: _History | None = None


def record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: visible_npus.DeviceLike = None,
    clear_history: bool = False,
    **ignored: Any,
) -> None:
    """Begin to record the memory of all NPUs, or end it with `enabled=None`.

    Args:
        enabled: None, "state" (only where live blocks come from) or "all" (each allocation and release too).
        context: For what call stacks are kept: None, "state", "alloc" or "all".
        stacks: "python" or "all"; both are Python's functions here.
        max_entries: How many allocations and releases are kept.
        device: Accepted; all are recorded.
        clear_history: Forget what was recorded before.
        ignored: Options of other releases.

    Raises:
        RuntimeError: An option that does not exist.
    """
    global _history
    if isinstance(enabled, bool):  # the signature before PyTorch 2.1
        enabled = "all" if enabled else None
    for name, value, known in (("enabled", enabled, _ENABLED), ("context", context, _CONTEXTS)):
        if value not in known:
            raise RuntimeError(f"expected {name} to be one of {known}, but got {value!r}")
    if stacks not in _STACKS:
        raise RuntimeError(f"expected stacks to be one of {_STACKS}, but got {stacks!r}")
    before, _history = _history, None
    if before is not None:
        memory.stop_listening(before)
    if enabled is None:
        return
    _history = _History(min(max_entries, 1 << 31), enabled == "all", context)
    if before is not None and not clear_history:
        _history.entries.extend(before.entries)
        _history.frames = before.frames
    memory.listen(_history)


def snapshot(device: visible_npus.DeviceLike = None) -> dict[str, Any]:
    """The live blocks, and what was recorded of the past, as PyTorch's allocators describe them."""
    traces: list[list[dict[str, Any]]] = [[] for _ in range(visible_npus.device_count())]
    for index, entry in _history.entries if _history is not None else ():
        traces[index].append(entry)
    return {
        "segments": segments(),
        "device_traces": traces,
        "allocator_settings": {"PYTORCH_NPU_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": [],
    }


def segments() -> list[dict[str, Any]]:
    """One segment for each live block of each NPU; sizes in bytes."""
    frames = {} if _history is None else _history.frames
    found = []
    for address, block in list(memory.blocks.items()):
        if not block.size:
            continue
        size = block.size
        part = {"address": address, "size": size, "requested_size": size, "state": "active_allocated"}
        found.append(
            {
                "device": block.pool.index,
                "address": address,
                "total_size": size,
                "allocated_size": size,
                "active_size": size,
                "requested_size": size,
                "stream": 0,
                "segment_type": "large" if size > memory.SMALL else "small",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [{**part, "frames": frames.get(address, [])}],
            }
        )
    return sorted(found, key=lambda segment: segment["address"])


def dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write the snapshot as a pickle."""
    with Path(filename).open("wb") as file:
        pickle.dump(snapshot(), file)


def _frames() -> list[Frame]:
    """The functions that led to an allocation, the innermost first, without the emulator's."""
    found: list[Frame] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_MACHINERY):
            found.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return found
