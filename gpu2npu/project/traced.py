"""A migration that tells, with each file, which other files its answer depends on: what a cache has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields

from gpu2npu.engine.context import EVERY_FILE
from gpu2npu.project.analysing_migrator import AnalysingMigrator
from gpu2npu.project.engine_migrator import EngineMigrator
from gpu2npu.records import MigratedFile


@dataclass(frozen=True)
class TracedFile(MigratedFile):
    """`depends` are other files of the project, or EVERY_FILE: while they stay, so does the rest of the record."""

    depends: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TracedMigrator:
    """Does what `migrator` does. Picklable, so that workers can have it."""

    migrator: AnalysingMigrator
    engine: EngineMigrator

    @property
    def new_files(self) -> Mapping[str, bytes]:
        return self.migrator.new_files

    def concerns(self, source: bytes, path: str) -> bool:
        return self.migrator.concerns(source, path)

    def concerns_other(self, source: bytes, path: str) -> bool:
        return self.migrator.concerns_other(source, path)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        file = self.migrator(source, path)
        edges = (self.engine.context.consulted, self.migrator.analyser.consulted)
        record = {field.name: getattr(file, field.name) for field in fields(MigratedFile)}
        return TracedFile(**record, depends=reachable(path, edges))


def reachable(path: str, edges: Iterable[Mapping[str, Set[str]]]) -> frozenset[str]:
    """The files that `path` leads to, without itself; EVERY_FILE alone if it is among them.

    An answer may be kept in memory from an earlier file, without asking again: so what *those* asked counts too.
    """
    graphs = tuple(edges)
    found: set[str] = set()
    pending = [path]
    while pending:
        asker = pending.pop()
        for graph in graphs:
            new = graph.get(asker, set()) - found
            found |= new
            pending += new
    return frozenset({EVERY_FILE}) if EVERY_FILE in found else frozenset(found - {path})
