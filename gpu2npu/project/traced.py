"""A migration that reports, with each file, which other files its answer depends on: what a cache has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, fields
from functools import cached_property

from gpu2npu.project.analysing_migrator import AnalysingMigrator
from gpu2npu.project.engine_migrator import EngineMigrator
from gpu2npu.python.project import EVERY_FILE
from gpu2npu.records import MigratedFile


@dataclass(frozen=True)
class TracedFile(MigratedFile):
    """`depends` are other files of the project: while they stay as they are, so does the rest of the record. It has one
    bit for each file, in the order of their paths; -1 is every file."""

    depends: int = 0


@dataclass(frozen=True)
class TracedMigrator:
    """Does what `migrator` does. Picklable, so that workers can have it."""

    migrator: AnalysingMigrator
    engine: EngineMigrator
    _graphs: list[Dependencies] = field(default_factory=list, compare=False, repr=False)  # this process's, when needed

    @property
    def new_files(self) -> Mapping[str, bytes]:
        return self.migrator.new_files

    def concerns(self, source: bytes, path: str) -> bool:
        return self.migrator.concerns(source, path)

    def concerns_other(self, source: bytes, path: str) -> bool:
        return self.migrator.concerns_other(source, path)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        file = self.migrator(source, path)
        if not self._graphs:
            project = self.engine.context.project
            self._graphs.append(Dependencies(sorted(project.files), (project.consulted,)))
        record = {field.name: getattr(file, field.name) for field in fields(MigratedFile)}
        return TracedFile(**record, depends=self._graphs[0].of(path))


@dataclass(frozen=True)
class Dependencies:
    """The files that each file leads to, by the graphs of who asked about whom, which grow as files are looked at."""

    paths: list[str]
    edges: Iterable[Mapping[str, Set[str]]]
    _known: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # for a file, the number of its edges and their bits

    @cached_property
    def _bits(self) -> dict[str, int]:
        return {path: 1 << place for place, path in enumerate(self.paths)}

    def of(self, path: str) -> int:
        """The bits of the files that `path` leads to, without itself; -1 if EVERY_FILE is among them.

        An answer may be kept in memory from an earlier file, without asking again: so what *those* asked counts too.
        """
        found, looked_at = self._direct(path), 0
        while found != -1 and (left := found & ~looked_at):
            first = left & -left
            looked_at |= first
            found |= self._direct(self.paths[first.bit_length() - 1])
        return found if found == -1 else found & ~self._bits.get(path, 0)

    def _direct(self, path: str) -> int:
        asked = [graph[path] for graph in self.edges if path in graph]
        number = sum(map(len, asked))
        known = self._known.get(path)
        if known is not None and known[0] == number:
            return known[1]
        bits = 0
        for other in set().union(*asked):
            bits |= -1 if other == EVERY_FILE else self._bits[other]
        self._known[path] = number, bits
        return bits
