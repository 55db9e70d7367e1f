"""A project whose files are open in an editor: it is made ready once, then used for texts that are not saved yet."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.codemods.choice import CodemodChoice, CodemodError
from gpu2npu.deep_stack import with_deep_stack
from gpu2npu.formats.kinds import HEAD_BYTES, kind_of
from gpu2npu.project.check.choice import CheckChoice, SourceTree, source_trees
from gpu2npu.project.installation import BUILD_FILES, installation
from gpu2npu.project.location import Location
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import discover, listed
from gpu2npu.project.tree.mirror import read_files
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import MigratedFile

NOTEBOOK = ".ipynb"
Stamp = tuple[int, int]


class OpenProject(Struct, frozen=True):
    """The rules and facts of a project as its files are on the disk.

    `saved` has the Python files that the structural rewrites were planned for: they are about these very bytes, and are
    left out for a text that differs. `stamps` are the times and sizes of these files and of the rule files.
    """

    tree: SourceTree
    codemods: CodemodChoice
    migrator: Migrator
    saved: dict[str, bytes]
    stamps: dict[Path, Stamp]

    @property
    def release(self) -> str:
        """The release of torch_npu whose facts are used."""
        return self.tree.settings.release

    def path_of(self, file: Path) -> str | None:
        """The path of a file in the project; None for a file that a check would not look into."""
        root = self.tree.location.root
        if not file.is_relative_to(root) or file.suffix == NOTEBOOK:
            return None
        path = file.relative_to(root).as_posix()
        return None if self.tree.excludes(path) else path

    def migrated(self, path: str, text: bytes) -> MigratedFile:
        """The outcome of migrating a text as that file of the project."""
        if kind_of(path, text[:HEAD_BYTES]) is None:
            return MigratedFile(path)
        migrator = self.migrator if self.saved.get(path, text) == text else self._without_rewrite(path)
        if path.endswith(".py") and not migrator.concerns(text, path):
            return MigratedFile(path)
        return with_deep_stack(partial(migrator, text, path))

    def names(self, path: str, text: bytes) -> Names | None:
        """The names of a Python text; None where it is not Python at the moment."""
        try:
            return Names.of(read_source(text, path), self.migrator.context.project)
        except (SourceReadError, TreeError):
            return None

    def refreshed(self) -> OpenProject | None:
        """The project with its Python files as they are on the disk now, itself where none has changed; None where it
        has other files or rules, and has to be read as a whole."""
        files = _python_files(self.tree.location)
        stamps = _stamps(self.tree, files)
        changed = [file for file, stamp in stamps.items() if self.stamps.get(file) != stamp]
        if stamps.keys() != self.stamps.keys() or any(file in self.tree.settings.choice.files for file in changed):
            return None
        if not changed:
            return self
        root = self.tree.location.root
        read, _ = read_files(root, [file.relative_to(root).as_posix() for file in changed])
        sources = self.saved | read
        if sources.keys() != self.saved.keys() or len(read) < len(changed):
            return None
        try:
            anew = Migrator.of(self.migrator.rulebook, self.release, root, sources, self.codemods)
        except CodemodError:
            return None
        analyser = FileAnalyser(self.release, frozenset(FileQuestion), anew.context.project, self.tree.settings.chips)
        return replace(self, migrator=replace(anew, analyser=analyser), saved=sources, stamps=stamps)

    def _without_rewrite(self, path: str) -> Migrator:
        plan = self.migrator.plan
        rewrites = {each: rewrite for each, rewrite in plan.rewrites.items() if each != path}
        failures = {each: reason for each, reason in plan.failures.items() if each != path}
        return replace(self.migrator, plan=replace(plan, rewrites=rewrites, failures=failures))


def open_project(source: Path, settings: Settings) -> OpenProject:
    """Read a project, a folder or a single file, with the settings that it has. Raises UsageError: a setting, a version
    or a rule file cannot be used."""
    (tree,), _, _ = source_trees((source,), settings, CheckChoice())
    place, settings = tree.location, tree.settings
    files = _python_files(place)
    stamps = _stamps(tree, files)
    python, _ = read_files(place.root, files)
    excluded = frozenset(path for path in python if tree.excludes(path))
    codemods = replace(settings.codemods, excluded=excluded, installed=installation(python, _build_files(place)))
    migrator = Migrator.load(
        settings.choice,
        settings.release,
        place.root,
        python,
        codemods,
        questions=frozenset(FileQuestion),
        chips=settings.chips,
    )
    return OpenProject(tree, codemods, migrator, python, stamps)


def _build_files(place: Location) -> dict[str, bytes]:
    if place.only is not None:
        return {}
    found = listed(place.root)
    paths = (path for path in (*found.python, *found.others) if posixpath.basename(path) in BUILD_FILES)
    return read_files(place.root, paths)[0]


def _python_files(place: Location) -> tuple[str, ...]:
    return (listed(place.root) if place.only is None else discover(place.root, place.only)).python


def _stamps(tree: SourceTree, paths: Iterable[str]) -> dict[Path, Stamp]:
    """The time and size of each file of a project that can be read, and of its rule files."""
    files = (*(tree.location.root / path for path in paths), *tree.settings.choice.files)
    found = {}
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            found[file] = status.st_mtime_ns, status.st_size
    return found


def source_of(file: Path, folders: tuple[Path, ...]) -> Path:
    """The project of a file: the innermost folder of the workspace that holds it, or else the file alone."""
    holding = [folder for folder in folders if file.is_relative_to(folder)]
    return max(holding, key=lambda folder: len(folder.parts), default=file)


def resolved(path: str) -> Path:
    """The path of a file as projects have it, links in it followed."""
    return Path(os.path.realpath(path))
