"""Analysing one file: what is asked of it is told by findings and advice in the record of a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from gpu2npu.analysis.affinity import affinity_advice
from gpu2npu.analysis.python_module import Project, PythonModule, UnreadableError, read_module
from gpu2npu.analysis.torch_apis import torch_api_findings
from gpu2npu.analysis.value_types import ValueTypes
from gpu2npu.records import MigratedFile


class Question(str, Enum):
    """What can be asked of a single file."""

    TORCH_APIS = "torch_apis"
    AFFINITY_APIS = "affinity_apis"


@dataclass(frozen=True)
class FileAnalyser:
    """Analyses the files of one project for the release `version`. Picklable, so that workers can have it.

    `files` are the paths of the project's Python files, and `read` gives the bytes of one. With `fix`, the record's
    `content` is the file with the replacements that change no result.
    """

    version: str
    questions: frozenset[Question]
    files: frozenset[str]
    read: Callable[[str], bytes]
    fix: bool = False
    _project: list[Project] = field(default_factory=list, compare=False, repr=False)  # this process's, when needed

    def concerns(self, source: bytes, path: str) -> bool:
        """Whether there may be anything to say of a file, told from its bytes quickly."""
        return b"torch" in source

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        try:
            module = read_module(source, path, self._around())
        except UnreadableError as error:
            return MigratedFile(path, failure=str(error))
        return self._analysed(module)

    def _analysed(self, module: PythonModule) -> MigratedFile:
        types = ValueTypes(module)
        findings = torch_api_findings(module, types, self.version) if Question.TORCH_APIS in self.questions else []
        advice = affinity_advice(module, types, self.version) if Question.AFFINITY_APIS in self.questions else []
        return MigratedFile(module.path, findings=tuple(findings), advice=tuple(advice))

    def _around(self) -> Project:
        if not self._project:
            self._project.append(Project(self.files, self.read))
        return self._project[0]
