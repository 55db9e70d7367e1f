"""Room for recursion: a sum of thousands of terms is that deep a tree, a chain of assignments that long a question."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_Answer = TypeVar("_Answer")

# Calls, and the bytes of stack that so many may need: pages that are not touched take no memory.
_DEPTH = 100_000
_STACK = 512 * 1024 * 1024

_lock = threading.Lock()
_callers = 0
_limit_before = 0

# A thread with a deep stack may fork while the thread that started it still holds the lock, which nobody would release
# in the new process: it is forked between two holders.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def with_deep_stack(work: Callable[[], _Answer]) -> _Answer:
    """The result of `work`, or what it raises; it runs in a thread whose stack is large."""
    from concurrent.futures import Future

    result: Future[_Answer] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    with _deep_recursion():
        thread = threading.Thread(target=run, daemon=True)
        _start(thread)
        return result.result()


def _start(thread: threading.Thread) -> None:
    """Threads take the size of their stack from a setting of the process."""
    with _lock:
        before = threading.stack_size(_STACK)
        try:
            thread.start()
        finally:
            threading.stack_size(before)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """The limit belongs to the process too, and is what it was when the last of several callers leaves."""
    global _callers, _limit_before
    with _lock:
        if not _callers:
            _limit_before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit_before, _DEPTH))
        _callers += 1
    try:
        yield
    finally:
        with _lock:
            _callers -= 1
            if not _callers:
                sys.setrecursionlimit(_limit_before)
