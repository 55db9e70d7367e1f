"""The Python files of a project as codemods see them."""

from __future__ import annotations

from collections.abc import Mapping

from gpu2npu.engine import ProjectContext
from gpu2npu.python.meaning.library import Library
from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.project.program import Program as PythonProgram
from gpu2npu.python.project.project import Project
from gpu2npu.python.project.search_path import search_folders

__all__ = ["ParsedFile", "Program"]


class Program(PythonProgram):
    """Files that are to be migrated. `version` is that of their PyTorch, `trains` says whether any file of the project
    computes gradients."""

    def __init__(self, sources: Mapping[str, bytes], library: Library, version: str, trains: bool) -> None:
        # Trees are kept out of the migration's own project, which is sent to its workers.
        folders = search_folders(sources)
        super().__init__(sources, Project(frozenset(sources), sources.__getitem__, library=library, folders=folders))
        self.version = version
        self.trains = trains

    @classmethod
    def of(cls, sources: Mapping[str, bytes], context: ProjectContext) -> Program:
        """All files of a project."""
        return cls(sources, context.project.library, context.version, has_backward(sources))


def has_backward(sources: Mapping[str, bytes]) -> bool:
    """Return whether some file computes gradients."""
    return any(b".backward(" in source for source in sources.values())
