"""The time and the memory that a step takes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Cost:
    """The cost of one step: seconds, seconds of this process's CPUs, and the most bytes allocated on the device yet."""

    seconds: float
    cpu: float
    memory: int


class Clock:
    """Measures steps, each from the end of the one before."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a step."""
        self._began = time.perf_counter(), time.process_time()

    def cost(self) -> Cost:
        """The cost of the step that ends now."""
        return Cost(time.perf_counter() - self._began[0], time.process_time() - self._began[1], _peak_memory())


def _peak_memory() -> int:
    """The most bytes that tensors on this process's current device have held; 0 where no device counts them."""
    npu: Any = getattr(torch, "npu", None)
    if npu is not None:
        return int(npu.max_memory_allocated())
    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_initialized() else 0
