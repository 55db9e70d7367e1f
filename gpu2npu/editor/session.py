"""The projects that are open in an editor, and checks of their texts, one at a time."""

from __future__ import annotations

import ast
import asyncio
import atexit
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec import Struct

from gpu2npu.editor.open_project import OpenProject, open_project, resolved, source_of
from gpu2npu.language import sentence, shown
from gpu2npu.project.settings import Settings
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import MigratedFile, Span
from gpu2npu.support.spellings import is_torch_api
from gpu2npu.support.verdicts import verdict

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


# The line and the column of a character, both counted from 0.
Position = tuple[int, int]


def hover_text(migrated: MigratedFile, names: Names | None, release: str, at: Position) -> str:
    """Markdown about a place; "" where nothing is to be said."""
    return "\n\n".join([*_migration(migrated, at), *_verdict(names, release, at)])


def _migration(migrated: MigratedFile, at: Position) -> Iterator[str]:
    for change in migrated.changes:
        if change.before and _covers(change.span, at):
            becomes = sentence("{} becomes {}", f"`{change.before}`", f"`{change.after}`")
            yield f"{becomes} ({change.rule})\n\n{shown(change.message)}"
    for finding in migrated.findings:
        if _covers(finding.span, at):
            yield f"**{shown(finding.severity.value)}**: {shown(finding.message)} ({finding.rule})"


def _verdict(names: Names | None, release: str, at: Position) -> Iterator[str]:
    api = _api(names, at) if names is not None else None
    if api is None or not is_torch_api(api):
        return
    judged = verdict(api, release)
    words = sentence("{} with torch_npu {}", judged.kind.value, release)
    yield f"`{judged.api}`: {words}. {shown(f'{judged.evidence}.')}"
    if judged.advice:
        yield shown(judged.advice)


def _api(names: Names, at: Position) -> str | None:
    """The qualified name of the shortest dotted name, or the name, that ends in the word at a place."""
    file = names.file
    words = [node for node in file.parents if isinstance(node, (ast.Name, ast.Attribute)) and _is_word(names, node, at)]
    found = (names.qualified(node, file.scope_of(node)) for node in words)
    return next((api for api in found if api is not None), None)


def _is_word(names: Names, node: ast.Name | ast.Attribute, at: Position) -> bool:
    span = names.file.span(node)
    word = node.id if isinstance(node, ast.Name) else node.attr
    return span.end_line - 1 == at[0] and span.end_column - len(word) <= at[1] <= span.end_column


def _covers(span: Span, at: Position) -> bool:
    line, column = at
    return (span.start_line - 1, span.start_column) <= (line, column) <= (span.end_line - 1, span.end_column)
