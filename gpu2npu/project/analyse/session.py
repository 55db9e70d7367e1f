"""An analysis of a project: its facts are collected once, each mode asked for makes tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpu2npu import __version__
from gpu2npu.analysis.file_analysis import FileAnalyser, Question
from gpu2npu.engine.torch_library import TORCH
from gpu2npu.project.analysing_migrator import RuleFindings
from gpu2npu.project.errors import UsageError
from gpu2npu.project.migrator import prepare_engine
from gpu2npu.project.planning import PartPlanning
from gpu2npu.project.pool import Pool
from gpu2npu.project.processes import available_cpus
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.request import Request, check_request
from gpu2npu.project.tree.discovery import Tree, discover
from gpu2npu.project.tree.mirror import add_file, finish_folders, mirror, read_files
from gpu2npu.project.tree.reader import ProjectReader
from gpu2npu.project.tree.staging import staged
from gpu2npu.project.workers import migrate_files
from gpu2npu.python.project.project import Project
from gpu2npu.python.project.search_path import search_folders
from gpu2npu.records import MigratedFile, PathNote
from gpu2npu.report.analysis_tables import Table, write_analysis_log, write_analysis_tables
from gpu2npu.report.text import counted

SUFFIX = "analysis"


@dataclass(frozen=True)
class Copy:
    """A copy of the project that an analysis writes beside its tables: in `folder` of the output ("" for the output
    itself), with `files`, by path, added or in the place of what the project has."""

    folder: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Result:
    """The result of one mode: tables by file name, and what it could not look at."""

    tables: Mapping[str, Table]
    notes: tuple[PathNote, ...] = ()
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class AnalysisChoice:
    """The request for an analysis, beyond what a migration is asked.

    `modes` are names of modes, `fix` says to write a copy with the safe replacements, `apis` are tables that an
    analysis of third-party code wrote.
    """

    modes: tuple[str, ...]
    fix: bool = False
    apis: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Facts:
    """The facts that every mode may use.

    `sources` are the bytes of the project's Python files and notebooks by path, without those that are excluded; the
    others are in `tree.others` and read when wanted (`read`).
    """

    root: Path
    name: str
    tree: Tree
    sources: Mapping[str, bytes]
    request: Request
    choice: AnalysisChoice
    progress: Progress = field(repr=False)
    executor: Executor | None = None

    @property
    def release(self) -> str:
        return self.request.release

    @cached_property
    def files(self) -> tuple[MigratedFile, ...]:
        """Each Python file and notebook with its findings and advice, sorted by path. Both modes that look at single
        files take theirs from here, so that a file is parsed once. With torch_apis, the rules' own findings are among
        them, as in a migration."""
        questions = frozenset(Question(mode) for mode in self.choice.modes if mode in set(Question))
        python = {path: source for path, source in self.sources.items() if path.endswith(".py")}
        pool = Pool(self.request.jobs or available_cpus(), self.executor, self.request.file_timeout)
        look: FileAnalyser | RuleFindings
        if Question.TORCH_APIS in questions:
            planning = PartPlanning(pool, self.progress)
            rules = prepare_engine(
                self.request.choice, self.release, self.root, python, self.request.codemods, spread=planning
            )
            look = RuleFindings(rules, FileAnalyser(self.release, questions, rules.context.project))
        else:
            folders = search_folders(python)
            project = Project(frozenset(python), ProjectReader(self.root), self.root, TORCH, folders=folders)
            look = FileAnalyser(self.release, questions, project)
        found = {path: MigratedFile(path) for path in self.sources}
        concerned = {path: source for path, source in self.sources.items() if look.concerns(source, path)}
        done = len(found) - len(concerned)
        with closing(migrate_files(look, concerned, pool)) as analysed:
            for file in analysed:
                found[file.path] = file
                done += 1
                self.progress(done, len(found))
        return tuple(found[path] for path in sorted(found))

    def read(self, paths: Iterable[str]) -> tuple[dict[str, bytes], list[PathNote]]:
        """The bytes of other files of the project, without those that are excluded; a note for each unreadable one."""
        return read_files(self.root, (path for path in paths if not self.request.excludes(path)))


Mode = Callable[[Facts], Result]


def analyse_project(
    request: Request,
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
    place = check_request(request, SUFFIX)
    if place.destination is None:
        raise ValueError("an analysis needs request.output")
    for mode in choice.modes:
        if mode not in modes:
            raise UsageError(f"There is no mode {mode!r}; the modes are {', '.join(modes)}.")
    tree = discover(place.root, place.only)
    read, unread = read_files(place.root, (*tree.python, *(path for path in tree.others if path.endswith(".ipynb"))))
    sources = {path: source for path, source in read.items() if not request.excludes(path)}
    facts = Facts(place.root, place.name, tree, sources, request, choice, progress, executor)
    with staged(place.destination, replace=request.force) as folder:
        results = [modes[mode](facts) for mode in dict.fromkeys(choice.modes)]
        notes = sorted({*tree.notes, *unread, *(note for result in results for note in result.notes)})
        tables = {name: table for result in results for name, table in result.tables.items()}
        for copy in (copy for result in results for copy in result.copies):
            _write_copy(facts, copy, folder)
        write_analysis_tables(tables, folder)
        opening = f"gpu2npu {__version__}: '{request.source}', analysed for PyTorch {request.version}"
        write_analysis_log(folder, [opening, *_log_lines(choice, tables, notes)])
    return tables, notes, place.destination


def _write_copy(facts: Facts, copy: Copy, folder: Path) -> None:
    target = folder / copy.folder
    target.mkdir(parents=True, exist_ok=True)
    mirror(facts.tree, facts.root, target)
    for path, content in copy.files.items():
        add_file(target / path, content)
    finish_folders(facts.tree, facts.root, target)


def _log_lines(choice: AnalysisChoice, tables: Mapping[str, Table], notes: list[PathNote]) -> list[str]:
    return [
        f"modes: {', '.join(choice.modes)}",
        *(f"{note.path}: {note.reason}" for note in notes),
        *(f"{name}: {counted(len(table.rows), 'row')}" for name, table in tables.items()),
    ]
