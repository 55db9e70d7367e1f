"""A pool that works on all tasks, such as the migration of each file: in this process, in processes that can be ended,
or on any `concurrent.futures.Executor`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.garbage import uncollected
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.worker_processes import TaskEndedError, TimeLimitError, Workers, can_start_processes
from gpu2npu.records import MigratedFile

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
            for task in tasks:
                try:
                    yield task, with_deep_stack(partial(ask, task))
                except Exception as error:  # noqa: PERF203  # what each task raises is its answer
                    yield task, error
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


# Takes the bytes of a file and its path in the project.
Migrate = Callable[[bytes, str], MigratedFile]


def migrate_files(
    migrate: Migrate,
    sources: Mapping[str, bytes],
    pool: Pool,
    progress: Progress = no_progress,
    *,
    others: int = 0,
) -> Generator[MigratedFile, None, None]:
    """Yield the outcome of each file as it is done, in no particular order. `others` are files that need no work, which
    the progress counts too.

    A file whose migration raises, kills its worker or takes too long comes back with a failure.
    """
    jobs = 1 if sum(map(len, sources.values())) < WORTH_A_POOL else None
    tasks = [(path, sources[path]) for path in _in_order(sources)]
    with closing(pool.answers(partial(_migrated, migrate), tasks, lambda task: task[:1], jobs=jobs)) as answers:
        for done, ((path, _), file) in enumerate(answers, start=others + 1):
            yield MigratedFile(path, failure=_ended(file)) if isinstance(file, BaseException) else file
            progress(done, others + len(tasks))


def _in_order(sources: Mapping[str, bytes]) -> list[str]:
    """The paths of files, those of Python behind the others, which come with large ones first. The Python files whose
    facts were read last come first: a worker still has their trees."""
    others = [path for path in sources if not path.endswith(".py")]
    python = [path for path in sources if path.endswith(".py")]
    return [*sorted(others, key=lambda path: (-len(sources[path]), path)), *reversed(python)]


def _migrated(migrate: Migrate, task: tuple[str, bytes]) -> MigratedFile:
    """No file may stop the others: whatever goes wrong becomes that file's failure."""
    path, source = task
    try:
        return migrate(source, path)
    except RecursionError:
        return MigratedFile(
            path, failure="its code is nested too deeply, or its names refer to each other in too long a chain"
        )
    except MemoryError:
        return MigratedFile(path, failure="there was not enough memory to migrate it")
    except Exception as error:
        return MigratedFile(path, failure=f"an internal error of gpu2npu ({type(error).__name__}: {error})")


def _ended(error: BaseException) -> str:
    """Return why a file has no outcome: what became of the process that worked on it."""
    if isinstance(error, TimeLimitError):
        return f"it takes longer than {error.seconds:g} seconds, the limit of --file-timeout"
    detail = "" if isinstance(error, TaskEndedError) else f" ({type(error).__name__})"
    return f"the process that migrated it ended unexpectedly{detail}"
