"""Backward passes run in the calling thread, and what a hook raises comes out of them.

PyTorch gives each device of a backend a thread of its own, and believes a Python backend to have one device: a backward
pass on npu:1 would be refused. In the calling thread it needs none, and the thread's current device and profiler stay.

When a hook raises, the engine's C++ code unwinds with Python's error still set, through a stream guard that asks the
backend's Python guard for its type; a Python function that returns with an error set is an error of its own, in a
place where C++ ends the process. So the guard takes the error away first, and the pass raises it in the end.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import torch

_error_occurred = ctypes.pythonapi.PyErr_Occurred
_error_occurred.argtypes = ()
_error_occurred.restype = ctypes.c_void_p
_TYPE = torch._C._autograd.DeviceType.PrivateUse1


class _Passes(threading.local):
    """This thread's backward passes: how many are within one another, and what their hooks raised."""

    depth = 0
    raised: BaseException | None = None


_passes = _Passes()


class DeviceGuard(torch._C._acc.DeviceGuard):
    """Answers what torch asks for the type of the device; streams and the current device are handled in Python."""

    def type_(self) -> Any:
        """PrivateUse1. Within a backward pass, an error that is set by now is kept, for the pass to raise."""
        if _passes.depth:
            try:
                _error_occurred()  # ctypes raises the error that it finds set
            except BaseException as error:
                _passes.raised = error
        return _TYPE


def install() -> None:
    """Switch the engine's threads off for every pass: all of Python's ways into it end in one function."""
    run_backward = torch.autograd.graph._engine_run_backward

    @functools.wraps(run_backward)
    def in_calling_thread(*args: Any, **kwargs: Any) -> Any:
        was_enabled = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        _passes.depth += 1
        try:
            return run_backward(*args, **kwargs)
        except SystemError:  # torch has an error to raise, and finds it gone
            raised, _passes.raised = _passes.raised, None
            if raised is None:
                raise
            raise raised from raised.__cause__
        finally:
            _passes.depth -= 1
            torch._C._set_multithreading_enabled(was_enabled)

    torch.autograd.graph._engine_run_backward = in_calling_thread
    torch.autograd._engine_run_backward = in_calling_thread  # type: ignore[attr-defined]
