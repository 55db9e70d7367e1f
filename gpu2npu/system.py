"""The parts of POSIX that migrating and checking use, and what stands for them where a system has none, as Windows."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# The signals by which a user or a system asks a process to end.
ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_TIMER_SIGNALS = tuple(getattr(signal, name) for name in ("SIGPROF", "SIGALRM") if hasattr(signal, name))
_TIMER_EXIT = 124  # as `timeout` of coreutils has it
# The exit codes of a process that `ends_after` ended, as `multiprocessing` gives them.
ENDED_BY_TIMER = tuple(-number for number in _TIMER_SIGNALS) or (_TIMER_EXIT,)
_CLOCK_FACTOR = 10


def holds(test: Callable[[], bool]) -> bool:
    """Return what `Path.is_dir` or `is_file` gives, false for a name that is too long or may not be looked up."""
    with contextlib.suppress(OSError):
        return test()
    return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder, which ends with the process; nothing where the system or its files have no locks.
    Raises OSError: another process holds it, the folder is gone, or it is a link."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def can_lock() -> bool:
    """Return whether a folder without a lock is one whose process has ended."""
    return fcntl is not None


def take_ending_signals_as_usual() -> None:
    """Have the signals that end a process end this one, but for Ctrl-C, which is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (*ENDING_SIGNALS, *_TIMER_SIGNALS):
        if number is not signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):  # a process begins with the mask of the one that started it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


@contextlib.contextmanager
def ending_signals_wait() -> Iterator[None]:
    """Keep the signals that end a process until the block is left: it starts something that has to be ended too."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def ends_after(seconds: float | None) -> Iterator[None]:
    """End this process with one of ENDED_BY_TIMER if the block takes longer; None for no limit.

    What counts are seconds of the processor, so that a busy machine ends nothing that an idle one would finish; a block
    that waits has ten times as many by the clock. Timers of the kernel end it in a loop of C code too. Where there are
    none, a thread does, by the clock, which has to wait for such a loop.
    """
    if seconds is None:
        yield
    elif _TIMER_SIGNALS:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, _CLOCK_FACTOR * seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
    else:
        timer = threading.Timer(seconds, os._exit, (_TIMER_EXIT,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
