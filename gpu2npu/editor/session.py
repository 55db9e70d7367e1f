"""The projects that are open in an editor, and checks of their texts, one at a time."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec import Struct

from gpu2npu.editor.hover import hover_text
from gpu2npu.editor.open_project import OpenProject, open_project, resolved, source_of
from gpu2npu.project.settings import Settings
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import MigratedFile

_Answer = TypeVar("_Answer")


class Checked(Struct, frozen=True):
    """The outcome of checking one version of a text, which a file would keep as the bytes `source`."""

    project: OpenProject
    path: str
    text: str
    source: bytes
    migrated: MigratedFile

    @property
    def after(self) -> str:
        """The text as a migration writes it."""
        content = self.migrated.content
        return self.text if content is None else content.decode(declared_encoding(self.source))

    def hover(self, at: tuple[int, int]) -> str:
        """Markdown about a line and a column, both from 0."""
        is_python = self.path.endswith(".py")
        names = self.project.names(self.path, self.source) if is_python else None
        return hover_text(self.migrated, names, self.project.release, at)


@dataclass
class EditorSession:
    """The projects that are open, by the folder or the file that they are.

    One thread does all the work, so that an editor is answered meanwhile and no two checks share a project's memory.
    """

    settings: Settings
    folders: tuple[Path, ...] = ()
    projects: dict[Path, OpenProject] = field(default_factory=dict)
    worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))

    @cached_property
    def nowhere(self) -> Path:
        """An empty folder, for texts that were never saved while no folder is open; it is removed at the end."""
        folder = TemporaryDirectory(prefix="gpu2npu-")
        atexit.register(folder.cleanup)
        return resolved(folder.name)

    async def work(self, work: Callable[[], _Answer]) -> _Answer:
        """The result of `work`, after all that was asked for before."""
        return await asyncio.get_running_loop().run_in_executor(self.worker, work)

    def check(self, name: str, text: str) -> Checked | None:
        """Check a file's text; None for a file that is not looked into, or was never saved and is
        in no folder that is open.

        Raises UsageError where the settings of its project cannot be used.
        """
        file = resolved(name)
        root = source_of(file, self.folders or (self.nowhere,))
        if not root.exists():
            return None
        if root not in self.projects:
            self.projects[root] = open_project(root, self.settings)
        project = self.projects[root]
        path = project.path_of(file)
        if path is None:
            return None
        source = _encoded(text)
        return Checked(project, path, text, source, project.migrated(path, source))

    def refresh(self, name: str) -> None:
        """Take in what changed on the disk in a file's project. Where it is not Python, it may be settings: then the
        project is read as a whole at the next request."""
        file = resolved(name)
        root = source_of(file, self.folders)
        known = self.projects.pop(root, None) if root.exists() else None
        project = known.refreshed() if known is not None and file.suffix == ".py" else None
        if project is not None:
            self.projects[root] = project


def _encoded(text: str) -> bytes:
    """The bytes that a file keeps a text as: in the encoding that its cookie names, where that can hold it."""
    source = text.encode(errors="replace")
    try:
        return text.encode(declared_encoding(source))
    except UnicodeEncodeError:
        return source
