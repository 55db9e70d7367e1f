"""The analyses, by the name that `-m` gives them: each makes tables of the project's facts, collected once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from gpu2npu import __version__
from gpu2npu.analysis.cuda_cpp.native_files import may_export
from gpu2npu.analysis.cuda_cpp.sources import native_places
from gpu2npu.analysis.dynamic_shape import instrument
from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.analysis.library.calls import ListedApi, library_calls, read_listed
from gpu2npu.analysis.library.unsupported_functions import analyse_library
from gpu2npu.codemods.program.files import TrainingProgram, has_backward
from gpu2npu.deep_stack import with_deep_stack
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
from gpu2npu.records import Advice, AdviceKind, MigratedFile, Outcome, PathNote
from gpu2npu.report.tables import (
    AFFINITY_CALLS,
    CUDA_OP_LIST,
    FINDING_GROUPS,
    HEADERS,
    PERFORMANCE_ADVICE,
    PRECISION_ADVICE,
    UNKNOWN_API,
    UNSUPPORTED_API,
    Table,
    affinity_rows,
    performance_rows,
    rows_of,
    write_analysis_log,
    write_analysis_tables,
)
from gpu2npu.report.text import counted
from gpu2npu.report.third_party import third_party_tables

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

    `modes` are names of modes, `fix` is whether to write a copy with the safe replacements, `apis` are tables that an
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
    progress: Progress = no_progress,
) -> tuple[dict[str, Table], list[PathNote], Path]:
    """Writes OUT/<name>_analysis with the tables of each mode asked for; returns the tables, the notes about what could
    not be read, and the folder.

    Raises UsageError if the request cannot be carried out and OutputError if the
    output cannot be written; either leaves the file system as it was.
    """
    location = locate(source, settings, output, SUFFIX)
    assert location.destination is not None
    for mode in choice.modes:
        if mode not in MODES:
            raise UsageError(f"There is no mode {mode!r}; the modes are {', '.join(MODES)}.")
    session = Session(location, settings, progress)
    notebooks = session.read(path for path in session.tree.others if path.endswith(".ipynb"))
    facts = Facts(session, session.wanted | notebooks, choice)
    with staged(location.destination, replace=output.force) as folder:
        results = [MODES[mode](facts) for mode in dict.fromkeys(choice.modes)]
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


# The tables of torch_apis, in the order in which they are shown.
_OF_APIS = (
    *(UNSUPPORTED_API, UNKNOWN_API, FINDING_GROUPS, CUDA_OP_LIST),
    *(PRECISION_ADVICE, PERFORMANCE_ADVICE),
)

# The kinds of --affinity that follow an advice, where they do not have its name.
_KINDS = {
    "masked-loss": ("masked-loss", "masked-sum"),
    "masked-store": ("masked-store", "any-masked-store"),
    "scaled-dot-product-attention": ("attention-call", "masked-attention-call"),
}


def torch_apis(facts: Facts) -> Result:
    """Every torch API that the release asked for lacks, runs on the CPU, or does not know."""
    native = native_places(facts.session.native() | facts.session.wanted)
    rows = rows_of(Outcome("", (*facts.files, *listed_calls(facts)), native=native))
    return Result({name: Table(HEADERS[name], [*rows[name]]) for name in _OF_APIS}, failures(facts))


def affinity_apis(facts: Facts) -> Result:
    """Code with a fused operator in torch_npu, and settings that make training wait; `fix`: a copy with safe edits."""
    program = TrainingProgram(facts.session.wanted, TORCH, facts.release, has_backward(facts.session.wanted))
    copies = (Copy("fixed", _fixed(program)),) if facts.choice.fix else ()
    tables = {
        AFFINITY_CALLS: Table(HEADERS[AFFINITY_CALLS], affinity_rows(facts.files, _written(facts.files, program))),
        PERFORMANCE_ADVICE: Table(HEADERS[PERFORMANCE_ADVICE], performance_rows(facts.files)),
    }
    return Result(tables, failures(facts), copies)


def _written(files: Iterable[MigratedFile], program: TrainingProgram) -> dict[tuple[str, Advice], str]:
    """The kinds of `--affinity` that follow a piece of advice, by its file."""
    from gpu2npu.codemods.affinity.codemod import applicable

    advised = [(file.path, each) for file in files for each in file.advice if each.kind is AdviceKind.AFFINITY]
    wanted: dict[str, set[str]] = {}  # planning every kind in every file doubles an analysis
    for path, advice in advised:
        wanted.setdefault(path, set()).update(_kinds(advice))
    places = applicable(program, wanted) if advised else {}
    found = {}
    for path, advice in advised:
        lines = range(advice.span.start_line, advice.span.end_line + 1)
        kinds = {kind for line, kind in places.get(path, ()) if line in lines and kind in _kinds(advice)}
        if kinds:
            found[path, advice] = ",".join(sorted(kinds))
    return found


def _kinds(advice: Advice) -> tuple[str, ...]:
    return _KINDS.get(advice.rule, (advice.rule,))


def _fixed(program: TrainingProgram) -> dict[str, bytes]:
    """The Python files in which code is replaced by what changes nothing but rounding, and what they import."""
    from gpu2npu.codemods.affinity.catalogue import SAFE, chosen
    from gpu2npu.codemods.affinity.codemod import fixed

    return fixed(program, chosen((SAFE,)))


def failures(facts: Facts) -> tuple[PathNote, ...]:
    """A note for each Python file and notebook that could not be analysed."""
    return tuple(PathNote(file.path, file.failure, failed=True) for file in facts.files if file.failure is not None)


def dynamic_shape(facts: Facts) -> Result:
    """The copy, in a folder of the project's name: some code looks at the name of the folder it is in."""
    changed, notes = instrument(facts.sources)
    return Result({}, tuple(notes), (Copy(facts.session.location.name, changed),))


def third_party(facts: Facts) -> Result:
    """Find the functions of the library that reach an unsupported API, a CUDA operator or a CUDA API."""
    session = facts.session
    sources = session.read(path for path in session.tree.others if may_export(path)) | session.wanted
    reached, notes = with_deep_stack(lambda: analyse_library(session.location.root, sources, facts.release))
    return Result(third_party_tables(reached), tuple(notes))


def listed_calls(facts: Facts) -> list[MigratedFile]:
    """The calls of what the tables given with `-api` list. Raises UsageError if one of them cannot be used."""
    listed: dict[str, ListedApi] = {}
    for table in facts.choice.apis:
        _read(table, listed)
    return library_calls(facts.session.location.root, facts.sources, listed) if listed else []


def _read(table: Path, listed: dict[str, ListedApi]) -> None:
    try:
        read_listed(table.read_bytes(), listed)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The table '{table}' of a library's functions cannot be used: {reason}.") from error


# A mode is a function of the facts; `analyse_project` writes what it gives.
MODES: Mapping[str, Mode] = {
    "torch_apis": torch_apis,
    "third_party": third_party,
    "dynamic_shape": dynamic_shape,
    "affinity_apis": affinity_apis,
}
