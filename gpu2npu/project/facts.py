"""The facts of a project's files, read in a pool before anything is asked about the project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

from gpu2npu.project.pool import WORTH_A_POOL, Pool
from gpu2npu.python.facts.reading import encoded_facts, is_known, remember
from gpu2npu.python.facts.record import encoded

_Files = tuple[tuple[str, bytes], ...]
# Bytes of the files that one task reads.
_TASK = 100_000


def read_all_facts(sources: Mapping[str, bytes], pool: Pool) -> dict[str, bytes]:
    """The facts of the Python files that nobody in this process has read yet, encoded, by path; they are known here
    then. Of a small project they are read where they are asked for, which takes no process."""
    unread = {path: source for path, source in sources.items() if not is_known(source)}
    found: dict[str, bytes] = {}
    if sum(map(len, unread.values())) < WORTH_A_POOL:
        return found
    single: list[_Files] = []
    for task, answer in _answers(list(_tasks(unread)), pool):
        if isinstance(answer, BaseException):
            single += ((file,) for file in task)
        else:
            found.update(zip((path for path, _ in task), answer, strict=True))
    for task, answer in _answers(single, pool):
        # What ends a process is not Python for all that ask; the file itself is tried, and reported, later.
        found[task[0][0]] = encoded(None) if isinstance(answer, BaseException) else answer[0]
    for path, facts in found.items():
        remember(sources[path], facts)
    return found


def _answers(tasks: list[_Files], pool: Pool) -> Iterator[tuple[_Files, list[bytes] | BaseException]]:
    with closing(pool.answers(_read, tasks, lambda task: [path for path, _ in task])) as answers:
        yield from answers


def _read(task: _Files) -> list[bytes]:
    return [encoded_facts(source, path) for path, source in task]


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
