"""The processor cores that this process may use."""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = ["reset_thread_affinity", "set_thread_affinity"]

_every = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def set_thread_affinity(core_range: Sequence[int] | None = None) -> None:
    """Keep the process on the cores from the first number to the last, as far as there are such; None changes nothing.

    Raises:
        ValueError: The range is not two numbers, the first at most the last.
    """
    if core_range is None or not _every:
        return
    if len(core_range) != 2 or core_range[0] > core_range[1]:
        raise ValueError(f"core_range must be the first and the last core, but got {list(core_range)}")
    cores = _every & set(range(core_range[0], core_range[1] + 1))
    if cores:
        os.sched_setaffinity(0, cores)


def reset_thread_affinity() -> None:
    """Let the process use all cores that it had at first."""
    if _every:
        os.sched_setaffinity(0, _every)
