"""The works of a group that are not over, and the threads that bring them to their end.

A collective is brought to its end by whoever comes first: the caller who waits for it, or a thread of the group. They
are Python's threads. Gloo's own never run Python, nor release a Python object: they may outlive the interpreter, and
the last reference to a gloo group, dropped in one of its own threads, has that thread join itself.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from gpu2npu.emulator.distributed.progress import Collective, PendingOperation

_MANY = 64  # works in flight; then the oldest is followed, so that messages nobody waits for let go of their memory


class Work(Protocol):
    """A work as seen from here."""

    operation: PendingOperation
    started: float  # seconds of the monotonic clock
    is_over: bool

    @property
    def is_awaited(self) -> bool:
        """Return whether somebody waits for it, or for its future."""

    def finish(self, timeout: timedelta = ...) -> None:
        """Block until the work is over; its error is kept. Raises RuntimeError when the time is."""

    def exception(self) -> Exception | None:
        """The error of a work that is over, which is known to somebody then."""

    def fulfil(self) -> None:
        """Give the result to the future, if there is one."""

    @property
    def has_future(self) -> bool:
        """Return whether `fulfil` may run callbacks."""

    def wait(self, timeout: timedelta = ...) -> bool:
        """Block until the work is over and raise its error."""


class InFlight:
    """The works of one group from their start to their end, each held here though its handle be dropped.

    Collectives are followed by one thread in their order. When one has a future, whose callbacks may wait for other
    collectives, another thread goes on with the rest. Messages depend on no order, so each that is
    followed has a thread to itself. No thread is there while nothing is followed.
    """

    def __init__(self) -> None:
        self._works: dict[Work, bool] = {}  # in the order of their start; whether a thread follows
        self._queue: deque[Work] = deque()
        self._threads: set[threading.Thread] = set()
        self._is_led = False
        self._lock = threading.Lock()

    def add(self, work: Work) -> None:
        """Hold a work that has started."""
        with self._lock:
            self._works[work] = False
            pending = (each for each in self._works if not each.is_over)
            oldest = next(pending, None) if len(self._works) > _MANY else None
        if oldest is not None:
            with contextlib.suppress(RuntimeError):
                self.follow(oldest)

    def remove(self, work: Work) -> None:
        """Let go of a work that is over, and whose error, if any, has been raised."""
        with self._lock:
            self._works.pop(work, None)

    def follow(self, work: Work) -> None:
        """Have a thread bring a work to its end. Once: later calls do nothing.

        Raises:
            RuntimeError: The interpreter ends and starts no more threads.
        """
        with self._lock:
            if self._works.get(work, True):
                return
            is_ordered = isinstance(work.operation, Collective)
            if not is_ordered:
                self._start(lambda: _end(work))
            elif not self._is_led:
                self._start(self._lead)
                self._is_led = True
            if is_ordered:
                self._queue.append(work)
            self._works[work] = True

    def wait(self) -> None:
        """Wait for all works.

        Raises:
            torch.distributed.DistBackendError: One has failed, and that has not been reported.
        """
        for work in self._snapshot():
            work.wait()

    def pending(self) -> list[Work]:
        """The works that are not over."""
        return [work for work in self._snapshot() if not work.is_over]

    def finish(self, patience: float) -> list[Exception]:
        """Wait for the works that other ranks may need, `patience` seconds at most; returns why works failed."""
        deadline, errors = time.monotonic() + patience, list[Exception]()
        for work in self.pending():
            if work.operation.is_for_others:
                try:
                    work.finish(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
                    error = work.exception()
                except RuntimeError as late:
                    error = late
                if error is not None:
                    errors.append(error)
        return errors

    def join(self, patience: float) -> bool:
        """Bring every work to its end and wait for the threads; whether all of that is done in `patience` seconds."""
        deadline = time.monotonic() + patience
        for work in self._snapshot():
            with contextlib.suppress(RuntimeError):
                work.finish(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
        with self._lock:
            threads = self._threads - {threading.current_thread()}  # which is one when a callback ends the group
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.001))
        return not any(thread.is_alive() for thread in threads)

    def _snapshot(self) -> list[Work]:
        with self._lock:
            return list(self._works)

    def _start(self, call: Callable[[], None]) -> None:
        """Run in a thread; the lock is held."""

        def run() -> None:
            try:
                call()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="hccl", daemon=True)
        thread.start()
        self._threads.add(thread)

    def _lead(self) -> None:
        """Bring the queue's works to their end one by one."""
        while True:
            with self._lock:
                if not self._queue:
                    self._is_led = False
                    return
                work = self._queue.popleft()
            work.finish()
            if work.has_future:
                self._hand_over()
                work.fulfil()
                with self._lock:
                    if self._is_led:
                        return
                    self._is_led = True

    def _hand_over(self) -> None:
        """Let another thread lead, if there is something to lead."""
        with self._lock:
            self._is_led = False
            if self._queue:
                with contextlib.suppress(RuntimeError):  # the interpreter ends
                    self._start(self._lead)
                    self._is_led = True


def _end(work: Work) -> None:
    work.finish()
    work.fulfil()
