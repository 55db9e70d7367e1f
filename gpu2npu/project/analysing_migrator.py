"""The migration with the analyses that it also runs: one worker, one file, one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gpu2npu.analysis.file_analysis import FileAnalyser
from gpu2npu.engine import unreadable
from gpu2npu.engine.findings import merged
from gpu2npu.project.migrator import Migrator
from gpu2npu.records import Finding, FindingKind, MigratedFile, Span
from gpu2npu.rulebook.in_code import NPU_LIMIT, TORCH_API

# What the API of a method begins with.
_OF_METHODS = ("torch.Tensor.", "torch.nn.Module.")


@dataclass(frozen=True)
class AnalysingMigrator:
    """Migrates a file and analyses its source. What a rule changes or reports is not reported again, but for limits:
    a call that fails for its dtype does so with "npu" in it, too."""

    migrator: Migrator
    analyser: FileAnalyser

    @property
    def new_files(self) -> Mapping[str, bytes]:
        return self.migrator.new_files

    def concerns(self, source: bytes, path: str) -> bool:
        return self.analyser.concerns(source, path) or self.migrator.concerns(source, path)

    def concerns_other(self, source: bytes, path: str) -> bool:
        return self.analyser.concerns(source, path) or self.migrator.concerns_other(source, path)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        migrated = self._migrated(source, path)
        if migrated.failure is not None or not self.analyser.concerns(source, path):
            return migrated
        try:
            analysed = self.analyser(source, path)
        except Exception as error:  # an analysis that fails is not a reason to leave a file unmigrated
            analysed = MigratedFile(path, failure=f"an internal error of gpu2npu ({type(error).__name__}: {error})")
        if analysed.failure is not None:
            failure = unreadable(source, path) if path.endswith(".py") else None
            if failure is not None:
                return MigratedFile(path, failure=failure)
            return replace(migrated, findings=merged(migrated.findings, [_unread(analysed.failure)]))
        findings = merged(migrated.findings, analysed.findings, partial(_is_answered, migrated=migrated))
        return replace(migrated, findings=findings, advice=analysed.advice)

    def _migrated(self, source: bytes, path: str) -> MigratedFile:
        if path.endswith(".py"):
            return self.migrator(source, path)  # which looks for what may concern it
        concerned = self.migrator.concerns_other(source, path)
        return self.migrator(source, path) if concerned else MigratedFile(path)


@dataclass(frozen=True)
class RuleFindings:
    """Finds what a migration would report of a file, without migrating it: the findings of rules and analyses."""

    migrator: Migrator
    analyser: FileAnalyser

    def concerns(self, source: bytes, path: str) -> bool:
        return self._both.concerns(source, path) if path.endswith(".py") else self._both.concerns_other(source, path)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        return replace(self._both(source, path), content=None, changes=(), traits=frozenset())

    @property
    def _both(self) -> AnalysingMigrator:
        return AnalysingMigrator(self.migrator, self.analyser)


def _is_answered(finding: Finding, migrated: MigratedFile) -> bool:
    """Tell whether the rules have dealt with what an analysis found; with a limit, by a finding on the same call."""
    if finding.rule == NPU_LIMIT:
        return any(_begins_as(finding.span, each.span) for each in migrated.findings)
    reported = [change.span for change in migrated.changes] + [each.span for each in migrated.findings]
    place = _method_name(finding) if finding.api.startswith(_OF_METHODS) else finding.span
    return any(_overlap(place, span) for span in reported)


def _method_name(finding: Finding) -> Span:
    """The name of the method alone: a change of what it is called on (`x.cuda().det()`) does not answer for it."""
    span = finding.span
    start = span.end_column - len(finding.api.rpartition(".")[2])
    return replace(span, start_line=span.end_line, start_column=start)


def _begins_as(one: Span, other: Span) -> bool:
    return (one.cell, one.start_line, one.start_column) == (other.cell, other.start_line, other.start_column)


def _overlap(one: Span, other: Span) -> bool:
    if one.cell != other.cell:
        return False
    starts = max((one.start_line, one.start_column), (other.start_line, other.start_column))
    return starts < min((one.end_line, one.end_column), (other.end_line, other.end_column))


def _unread(reason: str) -> Finding:
    """A file that the migration can read and the analysis cannot: newer syntax than this Python's, for instance."""
    message = f"The file's torch APIs were not looked at, and have to be by a person: {reason}."
    return Finding(Span(1, 0, 1, 0), TORCH_API, FindingKind.UNKNOWN, "torch", message)
