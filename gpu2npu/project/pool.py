"""A pool that works on all tasks: in this process, in processes that can be ended, or on any
`concurrent.futures.Executor`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.garbage import collect_after, uncollected
from gpu2npu.project.worker_processes import Workers, can_start_processes

if TYPE_CHECKING:
    from concurrent.futures import Executor

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
_Results = Generator[tuple[_Task, _Answer | BaseException], None, None]

# Below this many bytes to read or to migrate, more than one process costs more than it saves.
WORTH_A_POOL = 200_000


def _no_files(task: object) -> Collection[str]:
    return ()


@dataclass
class Pool:
    """Up to `jobs` processes, or an `executor`, which then decides itself how many. `seconds` is how long the work on
    one file may take, None for as long as it likes; an executor measures no time."""

    jobs: int = 1
    executor: Executor | None = None
    seconds: float | None = None
    _workers: Workers | None = field(default=None, init=False)

    @contextmanager
    def retained(self) -> Iterator[None]:
        """Within it, workers stay from one call of `answers` to the next. Behind it none is left."""
        self._workers = Workers(self.jobs)
        try:
            yield
        finally:
            self._workers.close()
            self._workers = None

    def share(self, *objects: object) -> None:
        """Have workers that start later know some objects from their start."""
        if self._workers is not None:
            self._workers.share(*objects)

    def answers(
        self,
        ask: Callable[[_Task], _Answer],
        tasks: Sequence[_Task],
        files: Callable[[_Task], Collection[str]] = _no_files,
        *,
        apart: bool = False,
        jobs: int | None = None,
    ) -> _Results[_Task, _Answer]:
        """Each task with its answer, or with what it raised, as they are done. No task can stop the others.

        `files` is which files a task is about, `jobs` that no more processes are worth their start. Without processes
        to be had, or with one job and no limit of time unless `apart` asks for it, the tasks are done in this process,
        where one that kills it ends all.
        """
        if self.executor is not None:
            return _on_executor(self.executor, ask, tasks)
        jobs = self.jobs if jobs is None else min(jobs, self.jobs)
        if can_start_processes() and (apart or jobs > 1 or self.seconds is not None):
            return self._in_processes(ask, tasks, files, jobs)
        return _here(ask, tasks)

    def _in_processes(
        self,
        ask: Callable[[_Task], _Answer],
        tasks: Sequence[_Task],
        files: Callable[[_Task], Collection[str]],
        jobs: int,
    ) -> _Results[_Task, _Answer]:
        limit = self.seconds
        seconds = (lambda task: None) if limit is None else lambda task: limit * max(1, len(files(task)))
        if self._workers is not None:
            yield from self._workers.answers(ask, tasks, seconds, files, jobs)
            return
        with closing(Workers(jobs)) as workers:
            yield from workers.answers(ask, tasks, seconds, files)


def _here(ask: Callable[[_Task], _Answer], tasks: Sequence[_Task]) -> _Results[_Task, _Answer]:
    with uncollected():
        gc.freeze()
        try:
            for count, task in enumerate(tasks, start=1):
                try:
                    yield task, with_deep_stack(partial(ask, task))
                except Exception as error:
                    yield task, error
                collect_after(count)
        finally:
            gc.unfreeze()


def _on_executor(
    executor: Executor, ask: Callable[[_Task], _Answer], tasks: Sequence[_Task]
) -> _Results[_Task, _Answer]:
    from concurrent.futures import as_completed

    futures = {executor.submit(_deeply, ask, task): task for task in tasks}
    try:
        for future in as_completed(futures):
            error = future.exception()
            yield futures[future], future.result() if error is None else _raised(error)
    finally:
        for future in futures:  # of what was not waited for; the executor is the caller's, and goes on
            future.cancel()


def _deeply(ask: Callable[[_Task], _Answer], task: _Task) -> _Answer:
    return with_deep_stack(partial(ask, task))


def _raised(error: BaseException) -> BaseException:
    """Return the exception that the task itself raised.

    Ray's RayTaskError has it as `cause`, and a traceback for a text.
    """
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
