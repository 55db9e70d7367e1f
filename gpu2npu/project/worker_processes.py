"""Tasks in processes of their own: one that takes too long, or dies of what it does, costs its own task only.

A worker has one task at a time and a timer of the kernel, which ends it wherever it is: in a loop of C code too, which
looks at no signal handler, and when the process that started it is gone. Nothing here starts a thread in the process
that asks, so that it stays safe to fork.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.garbage import collect_after, stop_collecting
from gpu2npu.system import ENDED_BY_TIMER, ending_signals_wait, ends_after, take_ending_signals_as_usual

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")


class TaskEndedError(Exception):
    """The process of a task ended without an answer."""


class TimeLimitError(TaskEndedError):
    """A task took longer than it may, `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def available_cpus() -> int:
    """The number of CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_start_processes() -> bool:
    """Return whether this process may have workers: one that is a daemon, as those of Dask are, may not."""
    return not multiprocessing.current_process().daemon


def in_processes(
    ask: Callable[[_Task], _Answer],
    tasks: Sequence[_Task],
    jobs: int,
    seconds: Callable[[_Task], float | None] = lambda task: None,
) -> Generator[tuple[_Task, _Answer | Exception], None, None]:
    """Each task with its answer as it is done, or with what it raised; a TaskEndedError where there is neither.

    `seconds` says how long a task may take by the clock, None for as long as it likes. Where the iteration is left
    early, by an exception too, the workers are killed.
    """
    pool = _Pool(ask, seconds)
    waiting = deque(tasks)
    done: list[tuple[_Task, _Answer | Exception]] = []
    try:
        while waiting or pool.busy or done:
            while waiting and len(pool.busy) < jobs:
                pool.give(waiting.popleft())
            yield from done  # while the workers go on
            done = pool.answered() if pool.busy else []
    finally:
        pool.close()


class _Worker(Generic[_Task]):
    """A process that answers tasks one after the other; `task` is the one that it has."""

    def __init__(self, ask: Callable[[_Task], Any]) -> None:
        context = _start_context()
        self.connection, theirs = context.Pipe()
        is_fork = context.get_start_method() == "fork"
        self.process: BaseProcess = context.Process(target=_serve, args=(ask if is_fork else None, theirs))
        self.process.start()
        theirs.close()  # so that its end is seen here
        if not is_fork:  # what is large goes this way: `start` would wait for ever for a process that dies reading it
            with suppress(OSError):
                self.connection.send(ask)
        self.task: _Task
        self.seconds: float | None = None

    def end(self) -> int | None:
        """Kill the process; gives its exit code, negative for the signal that ended it before."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        return self.process.exitcode


class _Pool(Generic[_Task, _Answer]):
    """The workers: `busy` ones by the connection that they answer on, `all` of them to end them."""

    def __init__(self, ask: Callable[[_Task], _Answer], seconds: Callable[[_Task], float | None]) -> None:
        self.ask = ask
        self.seconds = seconds
        self.all: list[_Worker[_Task]] = []
        self.idle: list[_Worker[_Task]] = []
        self.busy: dict[Connection, _Worker[_Task]] = {}

    def give(self, task: _Task) -> None:
        """Have a worker do a task."""
        worker = self.idle.pop() if self.idle else self._started()
        worker.task, worker.seconds = task, self.seconds(task)
        self.busy[worker.connection] = worker
        with suppress(OSError):  # it died, which `answered` will see
            worker.connection.send((task, worker.seconds))

    def _started(self) -> _Worker[_Task]:
        """A new worker, which no signal ends half made, or made and not known."""
        with ending_signals_wait():
            worker = _Worker[_Task](self.ask)
            self.all.append(worker)
        return worker

    def answered(self) -> list[tuple[_Task, _Answer | Exception]]:
        """Wait until some tasks are done."""
        return [self._answer(self.busy.pop(each)) for each in wait_for_any(list(self.busy))]  # type: ignore[call-overload]

    def _answer(self, worker: _Worker[_Task]) -> tuple[_Task, _Answer | Exception]:
        try:
            answer: _Answer | Exception
            answer = worker.connection.recv()
        except (EOFError, OSError):
            reason = _reason(worker.end(), worker.seconds)
            self.all.remove(worker)
            return worker.task, reason
        except Exception as error:  # an exception that cannot be made again on this side
            answer = error
        self.idle.append(worker)
        return worker.task, answer

    def close(self) -> None:
        """End all workers, whatever they do."""
        for worker in self.all:
            worker.end()


def _reason(code: int | None, seconds: float | None) -> TaskEndedError:
    if code == ENDED_BY_TIMER and seconds is not None:
        return TimeLimitError(seconds)
    return TaskEndedError("the process ended unexpectedly")


# Set in a worker, whose own threads hold no locks when it starts workers itself.
_is_worker = False


def can_fork() -> bool:
    """Return whether a process of this one starts in milliseconds with everything loaded: on Linux, where no other
    thread may hold a lock."""
    return sys.platform == "linux" and (_is_worker or threading.active_count() == 1)


def _start_context() -> Any:
    """The context of multiprocessing. A worker that is not forked loads what it needs itself."""
    return multiprocessing.get_context("fork" if can_fork() else "spawn")


def _serve(given: Callable[[Any], Any] | None, connection: Connection) -> None:
    """The life of a worker, which reads first what it is to ask unless that is given. It ends with its parent."""
    global _is_worker
    _is_worker = True
    # Ctrl-C goes to the whole process group; the process that asks decides what happens.
    take_ending_signals_as_usual()
    stop_collecting()
    gc.freeze()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError):
        ask = given or connection.recv()
        with_deep_stack(lambda: _answer_tasks(ask, connection))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)


def _answer_tasks(ask: Callable[[Any], Any], connection: Connection) -> None:
    done = 0
    while True:
        try:
            task, seconds = connection.recv()
        except EOFError:
            return
        with ends_after(seconds):
            try:
                answer = ask(task)
            except Exception as error:
                answer = error
        connection.send(answer)
        done += 1
        collect_after(done)
