"""An analysis of a project: its facts are collected once, each mode asked for makes tables of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu import __version__
from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.engine.torch_library import TORCH
from gpu2npu.project.errors import UsageError
from gpu2npu.project.location import Output, locate
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.mirror import ProjectReader, add_file, finish_folders, mirror
from gpu2npu.project.tree.staging import staged
from gpu2npu.python.project.project import Project
from gpu2npu.python.project.search_path import search_folders
from gpu2npu.records import MigratedFile, PathNote
from gpu2npu.report.analysis_tables import Table, write_analysis_log, write_analysis_tables
from gpu2npu.report.text import counted

if TYPE_CHECKING:
    from concurrent.futures import Executor

SUFFIX = "analysis"


class Copy(Struct, frozen=True):
    """A copy of the project that an analysis writes beside its tables: in `folder` of the output ("" for the output
    itself), with `files`, by path, added or in the place of what the project has."""

    folder: str
    files: Mapping[str, bytes]


class Result(Struct, frozen=True):
    """The result of one mode: tables by file name, and what it could not look at."""

    tables: Mapping[str, Table]
    notes: tuple[PathNote, ...] = ()
    copies: tuple[Copy, ...] = ()


class AnalysisChoice(Struct, frozen=True):
    """The request for an analysis, beyond what a migration is asked.

    `modes` are names of modes, `fix` says to write a copy with the safe replacements, `apis` are tables that an
    analysis of third-party code wrote.
    """

    modes: tuple[str, ...]
    fix: bool = False
    apis: tuple[Path, ...] = ()


class Facts:
    """The facts that every mode may use.

    `sources` are the bytes of the project's Python files and notebooks by path, without those that are excluded.
    """

    def __init__(self, session: Session, sources: Mapping[str, bytes], choice: AnalysisChoice) -> None:
        self.session, self.sources, self.choice = session, sources, choice

    @property
    def release(self) -> str:
        return self.session.settings.release

    @cached_property
    def files(self) -> tuple[MigratedFile, ...]:
        """Each Python file and notebook with its findings and advice, sorted by path. Both modes that look at single
        files take theirs from here, so that a file is parsed once. With torch_apis, the rules' own findings are among
        them, as in a migration."""
        questions = frozenset(FileQuestion(mode) for mode in self.choice.modes if mode in set(FileQuestion))
        found = {path: MigratedFile(path) for path in self.sources}
        with self.session.pool.retained():
            has_apis = FileQuestion.TORCH_APIS in questions
            look = self.session.migrator(questions, writes=False) if has_apis else self._analyser(questions)
            concerned = {path: source for path, source in self.sources.items() if look.concerns(source, path)}
            with self.session.outcomes(look, concerned, len(found) - len(concerned)) as outcomes:
                found.update((file.path, file) for file in outcomes)
        return tuple(found[path] for path in sorted(found))

    def _analyser(self, questions: frozenset[FileQuestion]) -> FileAnalyser:
        python, root = self.session.wanted, self.session.location.root
        project = Project(frozenset(python), ProjectReader(root), root, TORCH, folders=search_folders(python))
        return FileAnalyser(self.release, questions, project)


Mode = Callable[[Facts], Result]


def analyse_project(
    source: Path,
    settings: Settings,
    output: Output,
    choice: AnalysisChoice,
    modes: Mapping[str, Mode],
    progress: Progress = no_progress,
    *,
    executor: Executor | None = None,
) -> tuple[dict[str, Table], list[PathNote], Path]:
    """Writes OUT/<name>_analysis with the tables of each mode asked for; returns the tables, the notes about what could
    not be read, and the folder.

    `modes` are all there are, by name. Raises UsageError if the request cannot be carried out and OutputError if the
    output cannot be written; either leaves the file system as it was.
    """
    location = locate(source, settings, output, SUFFIX)
    assert location.destination is not None
    for mode in choice.modes:
        if mode not in modes:
            raise UsageError(f"There is no mode {mode!r}; the modes are {', '.join(modes)}.")
    session = Session(location, settings, progress, executor)
    notebooks = session.read(path for path in session.tree.others if path.endswith(".ipynb"))
    facts = Facts(session, session.wanted | notebooks, choice)
    with staged(location.destination, replace=output.force) as folder:
        results = [modes[mode](facts) for mode in dict.fromkeys(choice.modes)]
        notes = sorted({*session.notes, *(note for result in results for note in result.notes)})
        tables = {name: table for result in results for name, table in result.tables.items()}
        for copy in (copy for result in results for copy in result.copies):
            _write_copy(session, copy, folder)
        write_analysis_tables(tables, folder)
        opening = f"gpu2npu {__version__}: '{source}', analysed for PyTorch {settings.version}"
        write_analysis_log(folder, [opening, *_log_lines(choice, tables, notes)])
    return tables, notes, location.destination


def _write_copy(session: Session, copy: Copy, folder: Path) -> None:
    target = folder / copy.folder
    target.mkdir(parents=True, exist_ok=True)
    mirror(session.tree, session.location.root, target)
    for path, content in copy.files.items():
        add_file(target / path, content)
    finish_folders(session.tree, session.location.root, target)


def _log_lines(choice: AnalysisChoice, tables: Mapping[str, Table], notes: list[PathNote]) -> list[str]:
    return [
        f"modes: {', '.join(choice.modes)}",
        *(f"{note.path}: {note.reason}" for note in notes),
        *(f"{name}: {counted(len(table.rows), 'row')}" for name, table in tables.items()),
    ]
