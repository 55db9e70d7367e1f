"""The Python files of a project as codemods see them."""

from __future__ import annotations

from collections.abc import Mapping

from gpu2npu.engine import ProjectContext
from gpu2npu.python.program import ParsedFile
from gpu2npu.python.program import Program as PythonProgram
from gpu2npu.python.project import Project

__all__ = ["ParsedFile", "Program"]


class Program(PythonProgram):
    """The files of a project that are to be migrated; `version` is that of their PyTorch."""

    def __init__(self, sources: Mapping[str, bytes], project: Project, version: str) -> None:
        super().__init__(sources, project)
        self.version = version

    @classmethod
    def of(cls, sources: Mapping[str, bytes], context: ProjectContext) -> Program:
        """Trees are kept out of the migration's own project, which is sent to its workers."""
        project = Project(frozenset(sources), sources.__getitem__, library=context.project.library)
        return cls(sources, project, context.version)
