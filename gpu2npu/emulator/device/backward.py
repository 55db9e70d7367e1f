"""Backward passes run in the calling thread.

PyTorch gives each device of a backend a thread of its own, and believes a Python backend to have one device: a backward
pass on npu:1 would be refused. In the calling thread it needs none, and the thread's current device and profiler stay.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def install() -> None:
    """Switch the engine's threads off for every pass: all of Python's ways into it end in one function."""
    run_backward = torch.autograd.graph._engine_run_backward

    @functools.wraps(run_backward)
    def in_calling_thread(*args: Any, **kwargs: Any) -> Any:
        was_enabled = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        try:
            return run_backward(*args, **kwargs)
        finally:
            torch._C._set_multithreading_enabled(was_enabled)

    torch.autograd.graph._engine_run_backward = in_calling_thread
    torch.autograd._engine_run_backward = in_calling_thread  # type: ignore[attr-defined]
