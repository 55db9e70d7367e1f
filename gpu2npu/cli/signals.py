"""Ending a run that is asked to end: by Ctrl-C, by `kill`, by a terminal that closes."""

from __future__ import annotations

import atexit
import os
import select
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import click

from gpu2npu.language import shown
from gpu2npu.system import ENDING_SIGNALS, ending_signals_wait

# What `main` gives to click: the process is the command's own, and may be killed.
OWN_PROCESS = "own process"
# Seconds in which a handler runs. Where none does, a long loop of C code keeps it from that, such as the parse of a
# file of many megabytes, and the process is killed.
_SECONDS = 1.5
_HANDLED = b"\0"
# The process that is watched, and where the one that would kill it reads.
_watch: tuple[int, int] | None = None


class EndedBySignal(BaseException):
    """The run was asked to end. What it has begun is removed on the way out; the message is for the user."""

    def __init__(self, number: int) -> None:
        super().__init__("Interrupted." if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}.")
        self.number = number
        self.exit_code = 128 + number  # as shells have it


def end_cleanly_on_signals() -> None:
    """Have the signals that end the process raise EndedBySignal, so that no half-written output and no worker stays."""
    for number in ENDING_SIGNALS:
        # Under nohup a signal is ignored, and stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().obj == OWN_PROCESS:
        _kill_where_it_hangs()


def _kill_where_it_hangs() -> None:
    """Start a process, once, that kills this one where no handler runs in time. It ends with this one."""
    global _watch
    parent = os.getpid()
    is_watched = _watch is not None and _watch[0] == parent  # and not the process that forked this one
    if is_watched or not hasattr(os, "fork") or threading.active_count() > 1:
        return
    read, write = os.pipe()
    _watch = (parent, write)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)  # Python writes there at once, in C code too
    with ending_signals_wait():  # in the new process for good
        watcher = os.fork()
        if watcher == 0:
            for descriptor in (0, 1, write):
                os.close(descriptor)
            _wait_and_kill(read, parent)
    os.close(read)
    atexit.register(_dismiss, watcher, parent)


def _dismiss(watcher: int, parent: int) -> None:
    """End that process, and leave no entry of it to the system."""
    if os.getpid() == parent:
        signal.set_wakeup_fd(-1)
        if _watch is not None:
            os.set_blocking(_watch[1], True)  # the other process has to read this
        _report_handled()
        os.waitpid(watcher, 0)


def _report_handled() -> None:
    if _watch is not None and _watch[0] == os.getpid():
        # It has ended, since a handler ran before; or many signals have filled the pipe.
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(_watch[1], _HANDLED)


def _wait_and_kill(read: int, parent: int) -> NoReturn:
    """Wait for the number of a signal, and then for what its handler writes, or the end of the process."""
    try:
        number = _ending_signal(read)
        end = time.monotonic() + _SECONDS
        while number is not None and (left := end - time.monotonic()) > 0:
            if select.select([read], [], [], left)[0] and os.read(read, 1) in (_HANDLED, b""):
                number = None
        if number is not None and os.getppid() == parent:
            os.write(2, f"{shown(f'Error: {EndedBySignal(number)}')}\n".encode())
            os.kill(parent, signal.SIGKILL)
    finally:
        os._exit(0)


def _ending_signal(read: int) -> int | None:
    """Wait for the number of a signal that ends a process; None where the process ends without one. Any other signal
    with a handler, such as the one of a timer, is written there too."""
    while (found := os.read(read, 1)) not in (_HANDLED, b""):
        if found[0] in ENDING_SIGNALS:
            return found[0]
    return None


def _end(number: int, frame: FrameType | None) -> None:
    for each in ENDING_SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a second Ctrl-C would leave what the first one began to remove
    _report_handled()
    raise EndedBySignal(number)
