"""Migrating many files at once, in a Pool."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial

from gpu2npu.project.pool import WORTH_A_POOL, Pool
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.worker_processes import TaskEndedError, TimeLimitError
from gpu2npu.records import MigratedFile

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
