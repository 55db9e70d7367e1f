"""The engine as the project layer uses it: made ready once, then called for each file, in any process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.engine import ProjectContext, has_trigger, scan_project, without_own
from gpu2npu.formats.dispatch import may_concern, migrate_file
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import check_user_examples
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import Rulebook, RuleError, load_rulebook
from gpu2npu.rulebook.select import RuleChoice, select_rules


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

    def concerns_other(self, source: bytes, path: str) -> bool:
        return may_concern(source, path, self.rulebook, self.context.version)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        return migrate_file(source, path, self.rulebook, self.context)

    @classmethod
    def load(cls, rules: RuleChoice, version: str, root: Path, sources: Mapping[str, bytes]) -> EngineMigrator:
        """Raises UsageError if a rule file cannot be used, an example in it fails, or a rule's id is unknown."""
        try:
            whole = load_rulebook(rules.files)
            check_user_examples(whole)
            rulebook = without_own(select_rules(whole, rules.only, rules.skip), sources, root.name)
        except RuleError as error:
            raise UsageError(str(error)) from error
        return cls(rulebook, scan_project(sources, rulebook, version, _Reader(root), root))
