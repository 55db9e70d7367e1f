"""Tasks in processes of their own: one that takes too long, or dies of what it does, costs its own task only.

A worker has one task at a time and a timer of the kernel, which ends it wherever it is: in a loop of C code too, which
looks at no signal handler, and when the process that started it is gone. Nothing here starts a thread in the process
that asks, so that it stays safe to fork.
"""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from gpu2npu.deep_stack import with_deep_stack
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


class Workers:
    """Up to `jobs` processes that answer tasks, and stay for those that come later: what a worker remembers of a file
    is there when the file is asked about again."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._shared: tuple[object, ...] = ()
        self._all: list[_Worker] = []
        self._homes: dict[str, _Worker] = {}  # the worker that has last done something for a file

    def share(self, *objects: object) -> None:
        """Have workers know some objects from their start, to which what they are asked may refer at no cost. It does
        nothing once there is a worker."""
        if not self._all:
            self._shared = objects

    def answers(
        self,
        ask: Callable[[_Task], _Answer],
        tasks: Sequence[_Task],
        seconds: Callable[[_Task], float | None] = lambda task: None,
        files: Callable[[_Task], Iterable[str]] = lambda task: (),
        jobs: int | None = None,
    ) -> Generator[tuple[_Task, _Answer | Exception], None, None]:
        """Each task with its answer as it is done, or with what it raised; a TaskEndedError where there is neither.

        `seconds` is how many seconds of the processor a task may take, None for as long as it likes, `files` for
        which files it does something, and `jobs` how many workers are worth their start, by default all. Where
        the iteration is left early, by an exception too, the workers are killed.
        """
        work = _Work(ask, self._shared)
        queue = _Queue(tasks, lambda task: next((home for at in files(task) if (home := self._homes.get(at))), None))
        busy: dict[Connection, _Worker] = {}
        done: list[tuple[_Task, _Answer | Exception]] = []
        is_complete = False
        try:
            while queue.is_waiting or busy or done:
                for worker, task in self._given(queue, busy, work, jobs or self.jobs):
                    self._homes.update((path, worker) for path in files(task))
                    worker.give(task, seconds(task), work)
                    busy[worker.connection] = worker
                yield from done  # while the workers go on
                done = [self._answer(busy.pop(each)) for each in wait_for_any(list(busy))] if busy else []  # type: ignore[call-overload]
            is_complete = True
        finally:
            if not is_complete:
                self.close()

    def _given(
        self, queue: _Queue[_Task], busy: Mapping[Connection, _Worker], work: _Work, jobs: int
    ) -> Iterator[tuple[_Worker, _Task]]:
        """Yield the tasks that workers get now: those that have nothing to do, and new ones until there are `jobs`. The
        caller makes each busy at once."""
        idle = [worker for worker in self._all if worker.connection not in busy]
        for worker in idle:
            if queue.is_waiting:
                yield from ((worker, task) for task in queue.next_for(worker))
        while queue.is_waiting and len(busy) < jobs and len(self._all) < jobs:
            worker = self._started(work)
            yield from ((worker, task) for task in queue.next_for(worker))
            if worker.connection not in busy:
                break
        if queue.is_waiting and not busy:  # what is left belongs to a worker that is no more
            yield self._all[0], queue.any()

    def _started(self, work: _Work) -> _Worker:
        """A new worker, which no signal ends half made, or made and not known."""
        with ending_signals_wait():
            worker = _Worker(work)
            self._all.append(worker)
        return worker

    def _answer(self, worker: _Worker) -> tuple[Any, Any]:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            answer = _reason(worker.end(), worker.seconds)
            self._all.remove(worker)
            self._homes = {path: home for path, home in self._homes.items() if home is not worker}
        except Exception as error:  # an exception that cannot be made again on this side
            answer = error
        return worker.task, answer

    def close(self) -> None:
        """End all workers, whatever they do."""
        for worker in self._all:
            worker.end()
        self._all, self._homes = [], {}


# So many tasks are left to the worker that knows their files: what another one would learn anew takes as long.
_LEFT = 4


class _Queue(Generic[_Task]):
    """Tasks that wait: each worker gets those of its own files, then those of nobody, then others' where many wait."""

    def __init__(self, tasks: Sequence[_Task], home: Callable[[_Task], _Worker | None]) -> None:
        self._by_home: dict[_Worker | None, deque[_Task]] = {None: deque()}
        for task in tasks:
            self._by_home.setdefault(home(task), deque()).append(task)

    @property
    def is_waiting(self) -> bool:
        return any(self._by_home.values())

    def next_for(self, worker: _Worker) -> list[_Task]:
        """The next task for a worker, if there is one."""
        own = self._by_home.get(worker) or self._by_home[None]
        if own:
            return [own.popleft()]
        return [self.any()] if max(map(len, self._by_home.values())) > _LEFT else []

    def any(self) -> _Task:
        """A task of the worker that has most."""
        return max(self._by_home.values(), key=len).pop()


class _Pickler(pickle.Pickler):
    """Writes a shared object as its number. Python 3.13 has no `persistent_id` that can be set."""

    def __init__(self, buffer: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, each: object) -> int | None:
        return self._numbers.get(id(each))


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote."""

    def __init__(self, message: bytes, shared: Sequence[object]) -> None:
        super().__init__(io.BytesIO(message))
        self._shared = shared

    def persistent_load(self, number: int) -> object:
        return self._shared[number]


class _Work:
    """The function that workers call for each task, as it is sent to those that are there already."""

    def __init__(self, ask: Callable[[Any], Any], shared: tuple[object, ...]) -> None:
        self.ask, self.shared = ask, shared
        self._sent: bytes | None = None

    def encoded(self) -> bytes:
        """The function as bytes, in which a shared object is its number."""
        if self._sent is None:
            buffer = io.BytesIO()
            _Pickler(buffer, {id(each): number for number, each in enumerate(self.shared)}).dump(self.ask)
            self._sent = buffer.getvalue()
        return self._sent


class _Worker:
    """A process that answers tasks one after the other; `task` is the one that it has."""

    def __init__(self, work: _Work) -> None:
        context = _start_context()
        self.connection, theirs = context.Pipe()
        is_fork = context.get_start_method() == "fork"
        given = (work.ask, work.shared)
        self.process: BaseProcess = context.Process(target=_serve, args=(given if is_fork else None, theirs))
        self.process.start()
        theirs.close()  # so that its end is seen here
        if not is_fork:  # what is large goes this way: `start` would wait for ever for a process that dies reading it
            with suppress(OSError):
                self.connection.send(given)
        self.work = work
        self.task: Any = None
        self.seconds: float | None = None

    def give(self, task: object, seconds: float | None, work: _Work) -> None:
        """Have the worker do a task."""
        self.task, self.seconds = task, seconds
        with suppress(OSError):  # it died, which is seen when its answer is read
            if work is not self.work:
                self.connection.send(work.encoded())
                self.work = work
            self.connection.send((task, seconds))

    def end(self) -> int | None:
        """Kill the process; gives its exit code, negative for the signal that ended it before."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        return self.process.exitcode


def _reason(code: int | None, seconds: float | None) -> TaskEndedError:
    if code in ENDED_BY_TIMER and seconds is not None:
        return TimeLimitError(seconds)
    return TaskEndedError("the process ended unexpectedly")


# Set in a worker, whose own threads hold no locks when it starts workers itself.
_is_worker = False


def can_fork() -> bool:
    """Return whether a process of this one starts in milliseconds: on Linux, where no other thread may hold a lock."""
    return sys.platform == "linux" and (_is_worker or threading.active_count() == 1)


def _start_context() -> Any:
    """The context of multiprocessing. A worker that is not forked loads what it needs itself."""
    return multiprocessing.get_context("fork" if can_fork() else "spawn")


def _serve(given: tuple[Callable[[Any], Any], tuple[object, ...]] | None, connection: Connection) -> None:
    """The life of a worker, which reads first what it is to ask unless that is given. It ends with its parent."""
    global _is_worker
    _is_worker = True
    # Ctrl-C goes to the whole process group; the process that asks decides what happens.
    take_ending_signals_as_usual()
    gc.disable()
    gc.freeze()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError):
        ask, shared = given or connection.recv()
        with_deep_stack(lambda: _answer_tasks(ask, shared, connection))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)


def _answer_tasks(ask: Callable[[Any], Any], shared: tuple[object, ...], connection: Connection) -> None:
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if isinstance(message, bytes):
            ask = _Unpickler(message, shared).load()
            continue
        task, seconds = message
        with ends_after(seconds):
            try:
                answer = ask(task)
            except Exception as error:
                answer = error
        connection.send(answer)
