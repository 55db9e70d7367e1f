"""Migrating many files at once, in a Pool."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

from gpu2npu.project.pool import Pool
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.tree.order import imports_first
from gpu2npu.project.worker_processes import TaskEndedError, TimeLimitError
from gpu2npu.records import MigratedFile

# Takes the bytes of a file and its path in the project.
Migrate = Callable[[bytes, str], MigratedFile]

# Below this many bytes to migrate, more than one process costs more than it saves.
_WORTH_A_POOL = 60_000


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
    if sum(map(len, sources.values())) < _WORTH_A_POOL:
        pool = replace(pool, jobs=1)
    tasks = [(path, sources[path]) for path in imports_first(sources)]
    with closing(pool.answers(partial(_migrated, migrate), tasks)) as answers:
        for done, ((path, _), file) in enumerate(answers, start=others + 1):
            yield MigratedFile(path, failure=_ended(file)) if isinstance(file, BaseException) else file
            progress(done, others + len(tasks))


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
