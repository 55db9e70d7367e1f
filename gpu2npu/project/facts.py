"""The facts of a project's files, read in a pool before anything is asked about the project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial

from gpu2npu.project.cache.store import StoredFacts
from gpu2npu.project.pool import WORTH_A_POOL, Pool
from gpu2npu.python.facts.reading import encoded_facts, is_known, remember
from gpu2npu.python.tree.file import RETAINED

_Files = tuple[tuple[str, bytes], ...]
# Bytes of the files that one task reads.
_TASK = 100_000


def read_all_facts(sources: Mapping[str, bytes], pool: Pool, stored: StoredFacts | None = None) -> dict[str, bytes]:
    """The facts of the Python files that nobody in this process has read yet, encoded, by path; they are known here
    then. They are taken from where they are `stored`, and put there. Of few files, which are read where they are asked
    for, there are none: that takes no process."""
    unread = {path: source for path, source in sources.items() if not is_known(source)}
    found: dict[str, bytes] = {}
    if stored is not None:
        for path, (encoded_facts, facts) in stored.get(unread).items():
            remember(unread.pop(path), facts)
            found[path] = encoded_facts
    size = sum(map(len, unread.values()))
    is_small = size < WORTH_A_POOL
    if is_small and stored is None:
        return found
    read = partial(_read, with_values=size > RETAINED)
    new = _read_in_pool(read, unread, pool, 1 if is_small else None)
    for path, source in unread.items():
        # What ends a process is not Python for all that ask; the file itself is tried, and reported, later.
        remember(source, new.get(path))
    if stored is not None:
        stored.put(new)
    return found | new


_Read = Callable[[_Files], list[bytes]]


def _read_in_pool(read: _Read, unread: Mapping[str, bytes], pool: Pool, jobs: int | None) -> dict[str, bytes]:
    """The encoded facts of the files that some process can read."""
    found: dict[str, bytes] = {}
    single: list[_Files] = []
    for task, answer in _answers(read, list(_tasks(unread)), pool, jobs):
        if isinstance(answer, BaseException):
            single += ((file,) for file in task)
        else:
            found.update(zip((path for path, _ in task), answer, strict=True))
    for task, answer in _answers(read, single, pool, jobs):
        if not isinstance(answer, BaseException):
            found[task[0][0]] = answer[0]
    return found


def _answers(
    read: _Read, tasks: list[_Files], pool: Pool, jobs: int | None
) -> Iterator[tuple[_Files, list[bytes] | BaseException]]:
    with closing(pool.answers(read, tasks, lambda task: [path for path, _ in task], jobs=jobs)) as answers:
        yield from answers


def _read(task: _Files, with_values: bool) -> list[bytes]:
    return [encoded_facts(source, path, with_values) for path, source in task]


def _tasks(sources: Mapping[str, bytes]) -> Iterator[_Files]:
    """The files in tasks of about the same size."""
    waiting: list[tuple[str, bytes]] = []
    size = 0
    for path, source in sources.items():
        waiting.append((path, source))
        size += len(source)
        if size >= _TASK:
            yield tuple(waiting)
            waiting, size = [], 0
    if waiting:
        yield tuple(waiting)
