"""The interface that the project layer asks of the engine. A seam: tests put a small function in its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook.select import RuleChoice
from gpu2npu.support.limits import DEFAULT_CHIP

if TYPE_CHECKING:
    from gpu2npu.codemods.plan import Spread
    from gpu2npu.project.cache.project_facts import ProjectFactsCache
    from gpu2npu.project.engine_migrator import EngineMigrator


class Migrator(Protocol):
    """Migrates one file of a project. Picklable, so that workers can have it."""

    @property
    def new_files(self) -> Mapping[str, bytes]:
        """Files that the output gets besides, by path."""

    def concerns(self, source: bytes, path: str) -> bool:
        """Return whether a Python file may need migrating, judged quickly from its bytes; if not, it stays as it is."""

    def concerns_other(self, source: bytes, path: str) -> bool:
        """The same for a file that is not Python, of the kind that its path says (see formats/kinds.py)."""

    def __call__(self, source: bytes, path: str) -> MigratedFile: ...


class Prepare(Protocol):
    """Makes a Migrator for the project whose Python files, by path, are `sources`; `spread` plans its parts, `chips`
    are the families of chips (of limits.CHIPS) that it is for."""

    def __call__(
        self,
        rules: RuleChoice,
        version: str,
        root: Path,
        sources: Mapping[str, bytes],
        codemods: CodemodChoice,
        *,
        spread: Spread = map,
        chips: tuple[str, ...] = (DEFAULT_CHIP,),
    ) -> Migrator: ...


def prepare_engine(
    rules: RuleChoice,
    version: str,
    root: Path,
    sources: Mapping[str, bytes],
    codemods: CodemodChoice,
    kept: ProjectFactsCache | None = None,
    *,
    spread: Spread = map,
) -> EngineMigrator:
    """Raises UsageError if a rule file cannot be used."""
    # Importing the engine takes longer than all the checks that come before it.
    from gpu2npu.project.engine_migrator import EngineMigrator

    return EngineMigrator.load(rules, version, root, sources, codemods, kept, spread)


def prepare_migration(
    rules: RuleChoice,
    version: str,
    root: Path,
    sources: Mapping[str, bytes],
    codemods: CodemodChoice,
    kept: ProjectFactsCache | None = None,
    *,
    spread: Spread = map,
    chips: tuple[str, ...] = (DEFAULT_CHIP,),
) -> Migrator:
    """The engine and the analyses that a migration also runs, for families of chips (of limits.CHIPS).

    Raises UsageError if a rule file cannot be used.
    """
    from gpu2npu.analysis.file_analysis import FileAnalyser, Question
    from gpu2npu.project.analysing_migrator import AnalysingMigrator

    engine = prepare_engine(rules, version, root, sources, codemods, kept, spread=spread)
    analyser = FileAnalyser(version, frozenset(Question), engine.context.project, chips=chips)
    return AnalysingMigrator(engine, analyser)
