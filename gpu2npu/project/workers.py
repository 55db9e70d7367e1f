"""Migrating many files at once: in processes that can be ended, or on any `concurrent.futures.Executor`.

The cyclic garbage collector is off while a file is worked on and runs once every few hundred files.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor, as_completed
from functools import partial

from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.garbage import collect_after, uncollected
from gpu2npu.project.processes import TaskEndedError, TimeLimitError, can_start_processes, in_processes
from gpu2npu.project.tree.order import imports_first
from gpu2npu.records import MigratedFile

# Takes the bytes of a file and its path in the project.
Migrate = Callable[[bytes, str], MigratedFile]
_Files = Generator[MigratedFile, None, None]

# Below this many bytes to migrate, more than one process costs more than it saves.
_WORTH_A_POOL = 60_000


def migrate_files(
    migrate: Migrate,
    sources: Mapping[str, bytes],
    jobs: int,
    executor: Executor | None = None,
    seconds: float | None = None,
) -> _Files:
    """Yields the outcome of each file as it is done, in no particular order.

    A file whose migration raises, kills its worker or takes longer than so many `seconds` comes back with a failure.
    With an `executor`, `migrate` and the files go there, and no time is measured. Otherwise up to `jobs` processes are
    started: none where that would not pay and there is no limit of time, which only a process can be held to.
    """
    ordered = imports_first(sources)
    if executor is not None:
        yield from _on_executor(executor, migrate, sources, ordered)
        return
    jobs = min(jobs, len(ordered)) if sum(map(len, sources.values())) >= _WORTH_A_POOL else 1
    if not can_start_processes() or (jobs <= 1 and seconds is None):
        yield from _in_process(migrate, sources, ordered)
        return
    tasks = [(path, sources[path]) for path in ordered]
    for (path, _), done in in_processes(partial(_answer, migrate), tasks, jobs, lambda task: seconds):
        yield MigratedFile(path, failure=ended(done)) if isinstance(done, Exception) else done


def ended(error: Exception) -> str:
    """Return why a file has no outcome: what became of the process that worked on it."""
    if isinstance(error, TimeLimitError):
        return f"it takes longer than {error.seconds:g} seconds, the limit of --file-timeout"
    detail = "" if isinstance(error, TaskEndedError) else f" ({type(error).__name__})"
    return f"the process that migrated it ended unexpectedly{detail}"


def _answer(migrate: Migrate, task: tuple[str, bytes]) -> MigratedFile:
    path, source = task
    return _guarded(migrate, source, path)


def _guarded(migrate: Migrate, source: bytes, path: str) -> MigratedFile:
    """No file may stop the others: whatever goes wrong becomes that file's failure."""
    try:
        return migrate(source, path)
    except RecursionError:
        return MigratedFile(path, failure="its code is nested too deeply, or names lead on to names too often")
    except MemoryError:
        return MigratedFile(path, failure="there was not enough memory to migrate it")
    except Exception as error:
        return MigratedFile(path, failure=f"an internal error of gpu2npu ({type(error).__name__}: {error})")


def _guarded_in_thread(migrate: Migrate, source: bytes, path: str) -> MigratedFile:
    return with_deep_stack(partial(_guarded, migrate, source, path))


def _in_process(migrate: Migrate, sources: Mapping[str, bytes], paths: list[str]) -> _Files:
    with uncollected():
        gc.freeze()
        for count, path in enumerate(paths, start=1):
            yield _guarded_in_thread(migrate, sources[path], path)
            collect_after(count)
        gc.unfreeze()


def _on_executor(executor: Executor, migrate: Migrate, sources: Mapping[str, bytes], paths: list[str]) -> _Files:
    futures = {executor.submit(_guarded_in_thread, migrate, sources[path], path): path for path in paths}
    for future in as_completed(futures):
        error = future.exception()
        if error is None:
            yield future.result()
        else:
            reason = f"the process that migrated it ended unexpectedly ({type(error).__name__})"
            yield MigratedFile(futures[future], failure=reason)
