"""The engine as the project layer uses it: made ready once, then called for each file, in any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.engine import ProjectContext, has_trigger, migrate_source, scan_project
from gpu2npu.project.errors import UsageError
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import Rulebook, RuleError, load_rulebook


@dataclass(frozen=True)
class _Reader:
    """Reads a file of the project when the engine follows an import into it."""

    root: Path

    def __call__(self, path: str) -> bytes:
        return (self.root / path).read_bytes()


@dataclass(frozen=True)
class EngineMigrator:
    """Applies a rulebook to the files of one project."""

    rulebook: Rulebook
    context: ProjectContext

    def concerns(self, source: bytes) -> bool:
        return has_trigger(source, self.rulebook, self.context.version)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        return migrate_source(source, path, self.rulebook, self.context)

    @classmethod
    def load(cls, rules: Sequence[Path], version: str, root: Path, sources: Mapping[str, bytes]) -> EngineMigrator:
        """Raises UsageError if a rule file cannot be used."""
        try:
            rulebook = load_rulebook(rules)
        except RuleError as error:
            raise UsageError(str(error)) from error
        return cls(rulebook, scan_project(sources, rulebook, version, _Reader(root), root))
