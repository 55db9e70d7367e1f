"""Analysing one file: what is asked of it is told by findings and advice in the record of a migration."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from gpu2npu.analysis.affinity import affinity_advice
from gpu2npu.analysis.affinity_fixes import fixed
from gpu2npu.analysis.numeric_advice import numeric_advice
from gpu2npu.analysis.python_module import Project, PythonModule, UnreadableError, parse_module, read_module
from gpu2npu.analysis.torch_apis import torch_api_findings
from gpu2npu.analysis.value_types import ValueTypes
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.formats.nodes import FormatError
from gpu2npu.formats.notebook import read_cells
from gpu2npu.python.source import read_source
from gpu2npu.records import Advice, Finding, MigratedFile, Span

_Told = TypeVar("_Told", Finding, Advice)


class Question(str, Enum):
    """What can be asked of a single file."""

    TORCH_APIS = "torch_apis"
    AFFINITY_APIS = "affinity_apis"


@dataclass(frozen=True)
class FileAnalyser:
    """Analyses the Python files and notebooks of one project for the release `version`. Picklable, so that workers can
    have it.

    `files` are the paths of the project's Python files, and `read` gives the bytes of one. With `fix`, the record's
    `content` is the Python file with the replacements that change no result.
    """

    version: str
    questions: frozenset[Question]
    files: frozenset[str]
    read: Callable[[str], bytes]
    fix: bool = False
    _project: list[Project] = field(default_factory=list, compare=False, repr=False)  # this process's, when needed

    def concerns(self, source: bytes, path: str) -> bool:
        """Whether there may be anything to say of a file, told from its bytes quickly."""
        return path.endswith((".py", ".ipynb")) and b"torch" in source

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        try:
            if path.endswith(".ipynb"):
                return self._notebook(source, path)
            return self._analysed(read_module(source, path, self._around()), source)
        except (UnreadableError, FormatError) as error:
            return MigratedFile(path, failure=str(error))

    @property
    def consulted(self) -> Mapping[str, Set[str]]:
        """For each file met so far, those that what is told of it may depend on."""
        return self._around().consulted

    def _analysed(self, module: PythonModule, source: bytes | None = None) -> MigratedFile:
        types = ValueTypes(module)
        findings: list[Finding] = []
        advice: list[Advice] = []
        if Question.TORCH_APIS in self.questions:
            findings += torch_api_findings(module, types, self.version)
            advice += numeric_advice(module, types)
        if Question.AFFINITY_APIS in self.questions:
            advice += affinity_advice(module, types, self.version)
        skips = find_skips(module.text)
        findings = [told for told in findings if not _is_skipped(told, skips)]
        advice = [told for told in advice if not _is_skipped(told, skips)]
        text = fixed(module, types) if self.fix and source is not None else None
        content = read_source(source, module.path).encode(text) if source is not None and text is not None else None
        return MigratedFile(module.path, content, findings=tuple(findings), advice=tuple(advice))

    def _notebook(self, source: bytes, path: str) -> MigratedFile:
        """All cells as one program; places are told by cell."""
        try:
            program, cells = read_cells(source.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise UnreadableError(f"byte {error.start} is not UTF-8 ({error.reason})") from error
        numbers = list(cells)
        starts = [start for _, start in cells.values()]
        analysed = self._analysed(parse_module(program, path, self._around()))

        def placed(told: _Told) -> _Told:
            index = max(bisect_right(starts, told.span.start_line) - 1, 0)
            above = starts[index] - 1
            return replace(told, span=_in_cell(told.span, numbers[index], above))

        return MigratedFile(
            path, findings=tuple(map(placed, analysed.findings)), advice=tuple(map(placed, analysed.advice))
        )

    def _around(self) -> Project:
        if not self._project:
            self._project.append(Project(self.files, self.read))
        return self._project[0]


def _is_skipped(told: Finding | Advice, skips: Skips) -> bool:
    """Whether a comment `# gpu2npu: skip` covers a place, by the rules that rewriting has."""
    if skips.file & {told.rule, EVERY_RULE}:
        return True
    return skips.covers(told.rule, told.span.start_line, told.span.end_line)


def _in_cell(span: Span, cell: int, above: int) -> Span:
    return Span(span.start_line - above, span.start_column, span.end_line - above, span.end_column, cell=cell)
