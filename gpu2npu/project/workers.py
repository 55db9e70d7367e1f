"""Migrating many files at once: one process a CPU, or any `concurrent.futures.Executor`.

The cyclic garbage collector is off while a file is worked on and runs once every few dozen files. What the first of
them left for the others, such as the interfaces of modules, is seldom looked at again.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait as wait_for_any

from gpu2npu.garbage import uncollected
from gpu2npu.project.order import imports_first
from gpu2npu.records import MigratedFile

# Takes the bytes of a file and its path in the project.
Migrate = Callable[[bytes, str], MigratedFile]
_Files = Generator[MigratedFile, None, None]

# Below this many bytes of Python to migrate, starting processes costs more than it saves.
_WORTH_A_POOL = 60_000
_FILES_BETWEEN_COLLECTIONS = 50
_FILES_BETWEEN_FULL_ONES = 4 * _FILES_BETWEEN_COLLECTIONS


def available_cpus() -> int:
    """The number of CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def migrate_files(
    migrate: Migrate, sources: Mapping[str, bytes], jobs: int, executor: Executor | None = None
) -> _Files:
    """Yields the outcome of each file as it is done, in no particular order.

    A file whose migration raises or kills its worker comes back with a failure. With an `executor`, `migrate` and the
    files go there; otherwise up to `jobs` processes are started, or none where that would not pay.
    """
    ordered = imports_first(sources)
    if executor is not None:
        yield from _on_executor(executor, migrate, sources, ordered)
        return
    jobs = min(jobs, len(ordered))
    if jobs <= 1 or sum(map(len, sources.values())) < _WORTH_A_POOL:
        yield from _in_process(migrate, sources, ordered)
    else:
        yield from _in_processes(migrate, sources, ordered, jobs)


def _guarded(migrate: Migrate, source: bytes, path: str) -> MigratedFile:
    """No file may stop the others: whatever goes wrong becomes that file's failure."""
    try:
        return migrate(source, path)
    except RecursionError:
        return MigratedFile(path, failure="its expressions are nested too deeply to be migrated")
    except MemoryError:
        return MigratedFile(path, failure="there was not enough memory to migrate it")
    except Exception as error:
        return MigratedFile(path, failure=f"an internal error of gpu2npu ({type(error).__name__}: {error})")


def _in_process(migrate: Migrate, sources: Mapping[str, bytes], paths: list[str]) -> _Files:
    with uncollected():
        gc.freeze()
        for count, path in enumerate(paths, start=1):
            yield _guarded(migrate, sources[path], path)
            _collect(count)
        gc.unfreeze()


def _collect(done: int) -> None:
    """Free what the files of which so many are done have left in cycles."""
    if done % _FILES_BETWEEN_FULL_ONES == 0:
        gc.collect()
    elif done % _FILES_BETWEEN_COLLECTIONS == 0:
        gc.collect(0)


def _on_executor(executor: Executor, migrate: Migrate, sources: Mapping[str, bytes], paths: list[str]) -> _Files:
    futures = {executor.submit(_guarded, migrate, sources[path], path): path for path in paths}
    for future in as_completed(futures):
        error = future.exception()
        yield future.result() if error is None else _crashed(futures[future], error)


def _crashed(path: str, error: BaseException | None = None) -> MigratedFile:
    detail = f" ({type(error).__name__})" if error is not None else ""
    return MigratedFile(path, failure=f"the process that migrated it ended unexpectedly{detail}")


def _in_processes(migrate: Migrate, sources: Mapping[str, bytes], paths: list[str], jobs: int) -> _Files:
    """When a worker dies, the executor fails every file that is still waiting. Those at the front of the queue, one of
    which killed it, then run one at a time in a worker of their own; the rest start again."""
    waiting = paths
    while waiting:
        broken: list[str] = []
        yield from _one_pool(migrate, sources, waiting, jobs, broken)
        waiting = [path for path in waiting if path in set(broken)]
        suspects, waiting = waiting[: 2 * jobs], waiting[2 * jobs :]
        for path in suspects:
            killed: list[str] = []
            yield from _one_pool(migrate, sources, [path], 1, killed)
            if killed:
                yield _crashed(path)


def _one_pool(migrate: Migrate, sources: Mapping[str, bytes], paths: list[str], jobs: int, broken: list[str]) -> _Files:
    """Fills `broken` with the files that were not done because a worker died."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, _start_context(), _start_worker, (migrate,))
    try:
        futures: dict[Future[MigratedFile], str] = {}
        with contextlib.suppress(BrokenExecutor):
            for path in paths:
                futures[pool.submit(_in_worker, sources[path], path)] = path
        broken.extend(paths[len(futures) :])
        for future in as_completed(futures):
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                broken.append(futures[future])
            else:
                yield future.result() if error is None else _crashed(futures[future], error)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start_context() -> multiprocessing.context.BaseContext:
    """Fork starts a worker in milliseconds with everything loaded, and is safe while there is one thread (the progress
    bar starts after the pool). Elsewhere workers load what they need themselves."""
    safe_to_fork = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if safe_to_fork else "spawn")


# What a worker process migrates with, sent once when it starts rather than with every file.
_installed: Migrate | None = None
_files_done = 0


def _start_worker(migrate: Migrate) -> None:
    global _installed
    _installed = migrate
    # Ctrl-C goes to the whole process group; the parent decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    gc.disable()
    gc.freeze()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next file for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)


def _in_worker(source: bytes, path: str) -> MigratedFile:
    global _files_done
    assert _installed is not None, "the pool starts its workers with _start_worker"
    _files_done += 1
    _collect(_files_done)
    return _guarded(_installed, source, path)
