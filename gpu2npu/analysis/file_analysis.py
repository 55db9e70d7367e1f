"""Analyses one file: the requested analyses give findings and advice in the record of a migration."""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.torch_apis.calls import torch_api_findings
from gpu2npu.analysis.torch_apis.limits import limit_findings
from gpu2npu.analysis.torch_apis.numeric_advice import numeric_advice
from gpu2npu.engine.other_devices.code import other_device_branches
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.formats.nodes import FormatError
from gpu2npu.formats.notebook import read_cells
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile, SourceReadError, read_source
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import Advice, Finding, MigratedFile, Span
from gpu2npu.support.chips import DEFAULT_CHIP

_Placed = TypeVar("_Placed", Finding, Advice)


class UnreadableError(ValueError):
    """A file cannot be analysed; the message is for the user."""


class FileQuestion(str, Enum):
    """The analyses of a single file."""

    TORCH_APIS = "torch_apis"
    AFFINITY_APIS = "affinity_apis"


class FileAnalyser(Struct, frozen=True):
    """Analyses the Python files and notebooks of a project for the release `version`. Picklable, so that workers can
    have it. `chips` are the families of chips that it is to run on (of chips.CHIPS).
    """

    version: str
    questions: frozenset[FileQuestion]
    project: Project
    chips: tuple[str, ...] = (DEFAULT_CHIP,)

    def concerns(self, source: bytes, path: str) -> bool:
        """Return whether there may be anything to say of a file, judged by its bytes quickly."""
        return path.endswith((".py", ".ipynb")) and (
            self._names_library(source, path) or (b"import" in source and self.project.has_library)
        )

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        try:
            if path.endswith(".ipynb"):
                return self._notebook(source, path)
            return self._analysed(Names.of(read_source(source, path), self.project), source)
        except (UnreadableError, SourceReadError, TreeError, FormatError) as error:
            # Of a file that cannot be read and does not name the library, nothing says that it has to do with it.
            return MigratedFile(path, failure=str(error) if self.project.mentions_library(source) else None)

    def _names_library(self, source: bytes, path: str) -> bool:
        project = self.project
        return project.spells_library(path) if path in project.files else project.mentions_library(source)

    def _analysed(self, names: Names, source: bytes) -> MigratedFile:
        if not self._names_library(source, names.path) and not self.project.leads_to_library(names):
            return MigratedFile(names.path)
        code = Code.of(names)
        findings: list[Finding] = []
        advice: list[Advice] = []
        if FileQuestion.TORCH_APIS in self.questions:
            limits = limit_findings(code, self.version, self.chips)
            limited = {(limit.api, limit.span.start_line, limit.span.start_column) for limit in limits}
            apis = torch_api_findings(code, self.version)
            findings += [
                each for each in apis if (each.api, each.span.start_line, each.span.start_column) not in limited
            ]
            findings += limits
            advice += numeric_advice(code)
        if FileQuestion.AFFINITY_APIS in self.questions:
            from gpu2npu.analysis.affinity.advice import affinity_advice  # a check asks for none, and starts sooner
            from gpu2npu.analysis.affinity.settings import settings_advice

            advice += affinity_advice(code, self.version) + settings_advice(code, self.version, self.chips)
        skips = find_skips(code.text)
        unchanged = [names.file.lines.span(*place) for place in other_device_branches(names)] if findings else []
        findings = [each for each in findings if not _is_skipped(each, skips) and not _is_within(each, unchanged)]
        advice = [each for each in advice if not _is_skipped(each, skips)]
        return MigratedFile(names.path, findings=tuple(findings), advice=tuple(advice))

    def _notebook(self, source: bytes, path: str) -> MigratedFile:
        """All cells as one program; places are given by cell."""
        try:
            program, cells = read_cells(source.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise UnreadableError(f"byte {error.start} is not UTF-8 ({error.reason})") from error
        numbers = list(cells)
        starts = [start for _, start in cells.values()]
        names = Names.of(SourceFile(path, program, "utf-8", b""), self.project)
        analysed = self._analysed(names, source)

        def placed(record: _Placed) -> _Placed:
            index = max(bisect_right(starts, record.span.start_line) - 1, 0)
            above = starts[index] - 1
            return replace(record, span=_in_cell(record.span, numbers[index], above))

        return MigratedFile(
            path, findings=tuple(map(placed, analysed.findings)), advice=tuple(map(placed, analysed.advice))
        )


def _is_skipped(record: Finding | Advice, skips: Skips) -> bool:
    """Return whether a comment `# gpu2npu: skip` covers a place, by the rules that rewriting has."""
    if skips.file & {record.rule, EVERY_RULE}:
        return True
    return skips.covers(record.rule, record.span.start_line, record.span.end_line)


def _is_within(finding: Finding, places: list[Span]) -> bool:
    start, end = (finding.span.start_line, finding.span.start_column), (finding.span.end_line, finding.span.end_column)
    return any(
        (place.start_line, place.start_column) <= start and end <= (place.end_line, place.end_column)
        for place in places
    )


def _in_cell(span: Span, cell: int, above: int) -> Span:
    return Span(span.start_line - above, span.start_column, span.end_line - above, span.end_column, cell=cell)
