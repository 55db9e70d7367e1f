"""A whole migration: find the files, migrate them in parallel, write the tree and its reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu import __version__
from gpu2npu.analysis.cuda_cpp.sources import native_places
from gpu2npu.project.choosing import Choose, hunks_of, with_hunks
from gpu2npu.project.location import Location, Output, changed_files, locate
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import Tree
from gpu2npu.project.tree.mirror import add_file, finish_folders, mirror, read_head, replace_content
from gpu2npu.project.tree.staging import staged
from gpu2npu.records import Finding, FindingKind, MigratedFile, Outcome, PathNote, Span
from gpu2npu.report.launcher import LAUNCHER_NAME, trains_on_several_cards, write_launcher
from gpu2npu.report.log import LOG_NAME, write_log
from gpu2npu.report.names import HEAD_BYTES, ReportNames, choose_names, may_be_report
from gpu2npu.report.tables import write_tables
from gpu2npu.rulebook.in_code import UNREAD

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from gpu2npu.project.migrator import FileMigrator

Prepare = Callable[[Session], "FileMigrator"]


class Preview(Struct, frozen=True):
    """The preview of a migration: its outcome, and the bytes of each file that it would change."""

    outcome: Outcome
    before: dict[str, bytes]


def migrate_project(
    source: Path,
    settings: Settings,
    output: Output,
    progress: Progress = no_progress,
    *,
    prepare: Prepare = Session.migrator,
    executor: Executor | None = None,
    choose: Choose | None = None,
) -> tuple[Outcome, Path]:
    """Writes the migrated copy and its reports; returns what was done and the folder written. `choose` is which hunks
    of the changes are taken; all are without it.

    Raises UsageError if the request cannot be carried out and OutputError if the output cannot be written; either
    leaves the file system as it was.
    """
    started = time.perf_counter()
    location = locate(source, settings, output, "msft" if settings.codemods.main is None else "msft_multi")
    assert location.destination is not None
    session = Session(location, settings, progress, executor)
    names = _report_names(location, session.tree)
    tree = replace(session.tree, others=tuple(path for path in session.tree.others if path not in names.replaced))
    session.tree = tree
    lost = changed_files(location.destination)
    with staged(location.destination, replace=output.force, progress=progress) as copy, session.pool.retained():
        outcome, sources, new_files = _migrate(session, prepare)
        if choose is not None:
            outcome = _chosen(outcome, sources, choose)
        notes = {*outcome.notes, *mirror(tree, location.root, copy, progress)}
        if lost:
            reason = f"it was replaced by --force with what was changed in it: {lost}"
            notes.add(PathNote(location.destination.name, reason, failed=False))
        unread = {note.path for note in notes if note.failed}
        copied = tuple(path for path in outcome.copied if path not in unread)
        for file in outcome.files:
            if file.content is not None:
                replace_content(copy / file.path, file.content)
        for path, content in new_files.items():
            add_file(copy / path, content)
        outcome = replace(outcome, notes=tuple(sorted(notes)), copied=copied, seconds=time.perf_counter() - started)
        opening = f"{__version__}: '{source}', written for PyTorch {settings.version}"
        _write_reports(outcome, copy, names, output, opening)
        if location.only is None:
            finish_folders(tree, location.root, copy)
    return outcome, location.destination


def preview_project(
    source: Path,
    settings: Settings,
    progress: Progress = no_progress,
    *,
    prepare: Prepare = Session.migrator,
    executor: Executor | None = None,
) -> Preview:
    """Preview what `migrate_project` would do; writes nothing. Raises UsageError."""
    started = time.perf_counter()
    session = Session(locate(source, settings), settings, progress, executor)
    with session.pool.retained():
        outcome, sources, _ = _migrate(session, prepare)
    changed = {file.path: sources[file.path] for file in outcome.files if file.content is not None}
    return Preview(replace(outcome, seconds=time.perf_counter() - started), changed)


def _migrate(session: Session, prepare: Prepare) -> tuple[Outcome, dict[str, bytes], Mapping[str, bytes]]:
    """The outcome, without what only writing shows, the bytes of every file that was looked at, and files to add."""
    migrator = prepare(session)
    files = {path: MigratedFile(path) for path in session.python}
    concerned = {path: source for path, source in session.wanted.items() if migrator.concerns(source, path)}
    others = session.others(migrator.concerns)
    sources, rest = concerned | others, len(files) - len(concerned)
    with session.outcomes(migrator, sources, rest) as outcomes:
        for file in outcomes:
            if file.path in files or file.content is not None or file.findings or file.failure or file.advice:
                files[file.path] = file
    native = session.native()
    outcome = Outcome(
        name=session.location.name,
        files=tuple(_with_failure(files[path]) for path in sorted(files)),
        copied=tuple(path for path in session.tree.others if path not in files),
        skipped=session.tree.skipped,
        notes=tuple(sorted(session.notes)),
        native=native_places(native | session.wanted),
        looked_into=session.looked_into,
    )
    return outcome, {**session.python, **others}, migrator.new_files


def _with_failure(file: MigratedFile) -> MigratedFile:
    """The record of a file that could not be migrated with a finding that says so, for the tables."""
    if file.failure is None:
        return file
    finding = Finding(Span(1, 0, 1, 0), UNREAD, FindingKind.UNKNOWN, file.path, file.failure)
    return replace(file, findings=(finding, *file.findings))


def _chosen(outcome: Outcome, sources: Mapping[str, bytes], choose: Choose) -> Outcome:
    """The outcome with the hunks that are taken."""
    hunks = [hunk for file in outcome.files if file.content is not None for hunk in hunks_of(file, sources[file.path])]
    taken = [hunk for hunk, is_taken in zip(hunks, choose(hunks), strict=True) if is_taken]
    files = (
        with_hunks(file, sources[file.path], [hunk for hunk in taken if hunk.path == file.path])
        if file.content is not None
        else file
        for file in outcome.files
    )
    return replace(outcome, files=tuple(files))


def _report_names(place: Location, tree: Tree) -> ReportNames:
    """Choose the names of the reports beside the project's own files."""
    if place.only is not None:
        return choose_names({place.only}, {})
    at_root = {path for path in (*tree.folders, *tree.python, *tree.others) if "/" not in path}
    at_root.update(link.path for link in tree.links if "/" not in link.path)
    heads = {}
    for path in tree.others:
        if path in at_root and may_be_report(path):
            heads[path] = read_head(place.root / path, HEAD_BYTES)
    return choose_names(at_root, heads)


def _write_reports(outcome: Outcome, copy: Path, names: ReportNames, output: Output, opening: str) -> None:
    write_tables(outcome, copy, names.names)
    if output.command or (trains_on_several_cards(outcome) and not names.retained_launcher):
        write_launcher(copy / names.names[LAUNCHER_NAME], output.command)
    write_log(outcome, copy / names.names[LOG_NAME], output.log_level, opening)
