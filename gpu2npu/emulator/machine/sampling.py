"""A thread that describes this process to `npu-smi` while it uses NPUs: what they hold, and how busy they are.

It reads counters that operators keep anyway, twice a second; operators know nothing of it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.dispatch import tally
from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.machine import processes
from gpu2npu.emulator.soc import current_soc

_INTERVAL = 0.5  # seconds


def start() -> None:
    """Describe the process from now on, until it ends. A folder that cannot be written ends it in silence."""
    ended = threading.Event()
    pid = os.getpid()

    def end() -> None:
        ended.set()
        if os.getpid() == pid:  # a forked child leaves its parent's description alone
            processes.remove(pid)

    thread = threading.Thread(target=_describe, args=(pid, ended), name="npu-smi", daemon=True)
    try:
        processes.write(_process(pid, {}))
    except OSError:
        return
    atexit.register(end)
    thread.start()


def _describe(pid: int, ended: threading.Event) -> None:
    """Write the process's description again and again."""
    allocations, seconds, then = _allocations(), _seconds(), time.monotonic()
    while not ended.wait(_INTERVAL):
        made, spent, now = _allocations(), _seconds(), time.monotonic()
        percent = 100 * (spent - seconds) / (now - then)
        busy = _shared({index: made[index] - allocations.get(index, 0) for index in made}, min(percent, 100.0))
        allocations, seconds, then = made, spent, now
        try:
            processes.write(_process(pid, busy))
        except OSError:
            return
    if os.getpid() == pid:
        processes.remove(pid)


def _shared(new: Mapping[int, int], percent: float) -> dict[int, float]:
    """The share of `percent` that each NPU has: operators do not count by device, so their results are counted."""
    total = sum(new.values())
    return {index: percent * count / total for index, count in new.items()} if total else {}


def _process(pid: int, busy: Mapping[int, float]) -> processes.EmulatedProcess:
    visible = visible_npus.visible_npus()
    uses = tuple(
        processes.NpuUse(visible[index], pool.reserved, busy.get(index, 0.0))
        for index, pool in sorted(memory.pools().items())
    )
    return processes.EmulatedProcess(pid, Path(sys.executable).name, current_soc().name, time.time(), uses)


def _allocations() -> dict[int, int]:
    return {index: pool.allocations for index, pool in memory.pools().items()}


def _seconds() -> float:
    return sum(seconds for _, seconds in tally.counts().values())
