"""Records that this process uses the NPU, which a process forked from it may not do."""

from __future__ import annotations

import os
import threading

import numpy as np

from gpu2npu.emulator.device import environment, visible_npus

_LARGEST = (32 << 20) - (1 << 16)  # bytes of the largest block that glibc keeps when it is freed

_initialized = False
_forked_after = False
_owner = threading.Lock()


def init() -> None:
    """Begin to use the NPU; what every first allocation does.

    Raises:
        RuntimeError: There is no NPU, or the parent of this forked process uses it already.
        RuntimeError, ValueError: An environment variable is refused (`environment.check`).
    """
    global _initialized
    if _initialized:
        return
    if _forked_after:
        raise RuntimeError(
            "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' "
            "start method"
        )
    with _owner:
        if not visible_npus.settle():
            raise RuntimeError("No NPU is visible: check GPU2NPU_NPUS and ASCEND_RT_VISIBLE_DEVICES")
        environment.check()
        _keep_freed_memory()
        _initialized = True
    if os.environ.get("GPU2NPU_PYTHON"):  # a run of `gpu2npu run`, which has an npu-smi
        from gpu2npu.emulator.machine import sampling

        sampling.start()


def _keep_freed_memory() -> None:
    """Let freed memory wait for the next tensor, as an NPU's does, where glibc would give blocks of megabytes back to
    the system and take them again, page by page: it keeps blocks up to the largest one that was ever freed."""
    np.empty(_LARGEST, np.uint8)


def is_initialized() -> bool:
    """Return whether this process has used the NPU."""
    return _initialized


def is_in_bad_fork() -> bool:
    """Return whether the process was forked from one that uses the NPU."""
    return _forked_after


def _after_fork() -> None:
    global _initialized, _forked_after
    if _initialized:
        _initialized, _forked_after = False, True


os.register_at_fork(after_in_child=_after_fork)
