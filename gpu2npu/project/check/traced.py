"""A migration that reports, with each file, which other files its answer depends on: what a cache has to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from gpu2npu.project.migrator import Migrator
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.records import MigratedFile


class TracedFile(MigratedFile, frozen=True):
    """`depends` are other files of the project: while they stay as they are, so does the rest of the record. It has one
    bit for each file, in the order of their paths; -1 is every file."""

    depends: int = 0


class TracedMigrator:
    """Does what a migrator does. Picklable, so that workers can have it."""

    def __init__(self, migrator: Migrator) -> None:
        self._migrator = migrator
        self._dependencies: Dependencies | None = None  # this process's, when needed

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        file = self._migrator(source, path)
        if self._dependencies is None:
            project = self._migrator.context.project
            self._dependencies = Dependencies(
                sorted({*project.files, *project.data}), (project.consulted,), project.grown
            )
        record = {name: getattr(file, name) for name in MigratedFile.__struct_fields__}
        return TracedFile(**record, depends=self._dependencies.of(path))


class Dependencies:
    """The files that each file leads to, by graphs of the files that each has read about; they grow with each file.

    Sets of files are bits, in the order of `paths`. What a file leads to is kept until an edge leads out of it: most
    files of a project lead to each other, and their new edges stay among them. `grown` gives the files whose edges may
    have grown since the last call; without it, all edges are looked at.
    """

    def __init__(
        self,
        paths: Sequence[str],
        edges: Sequence[Mapping[str, Set[str]]],
        grown: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self._edges = edges
        self._grown = grown
        self._bits = {path: 1 << place for place, path in enumerate(paths)}  # and of files that read about others only
        self._numbers: list[dict[str, int]] = [{} for _ in edges]  # of the edges of each file when last looked at
        self._direct: dict[int, int] = {}  # what the file of a bit read about
        self._found: dict[int, int] = {}  # what it leads to, itself included
        self._known = 0  # the bits of the files in `_found`

    def of(self, path: str) -> int:
        """The bits of the files that `path` leads to, without itself; -1 if EVERY_FILE is among them.

        An answer may be kept in memory from an earlier file, without reading again: so what *those* read counts too.
        """
        self._look_again()
        own = self._bit(path)
        found, looked_at = own, 0
        while found != -1 and (left := found & ~looked_at):
            left = left & self._known or left
            first = left & -left
            leads_to = self._found.get(first)
            looked_at |= first if leads_to is None else first | leads_to
            found |= self._direct.get(first, 0) if leads_to is None else leads_to
        self._found[own] = found
        self._known |= own
        return found if found == -1 else found & ~own

    def _look_again(self) -> None:
        """Take up new edges, and forget what was found and does not hold what they lead to."""
        grown = self._grown() if self._grown is not None else None
        for graph, numbers in zip(self._edges, self._numbers, strict=True):
            for path in graph if grown is None else grown:
                others = graph.get(path, frozenset())
                if numbers.get(path, 0) == len(others):
                    continue
                numbers[path] = len(others)
                bit, direct = self._bit(path), self._bits_of(others)
                self._direct[bit] = self._direct.get(bit, 0) | direct
                for each in [each for each, found in self._found.items() if found & bit and direct & ~found]:
                    del self._found[each]
                    self._known ^= each

    def _bit(self, path: str) -> int:
        """The bit of a file; a new one for a file such as a notebook, which no other leads to."""
        return self._bits.setdefault(path, 1 << len(self._bits))

    def _bits_of(self, paths: Set[str]) -> int:
        bits = 0
        for path in paths:
            bits |= -1 if path == EVERY_FILE else self._bits[path]
        return bits
