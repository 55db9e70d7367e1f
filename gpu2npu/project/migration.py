"""A whole migration: find the files, migrate them in parallel, write the tree and its reports."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gpu2npu import __version__
from gpu2npu.analysis.cuda_cpp.native_files import is_native
from gpu2npu.analysis.cuda_cpp.sources import native_places
from gpu2npu.formats.kinds import kind_of, needs_head
from gpu2npu.project.migrator import Migrator, Prepare, prepare_migration
from gpu2npu.project.planning import PartPlanning
from gpu2npu.project.pool import Pool
from gpu2npu.project.processes import available_cpus
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.request import Place, Request, check_request
from gpu2npu.project.tree.discovery import Tree, discover
from gpu2npu.project.tree.mirror import add_file, finish_folders, mirror, read_files, read_head, replace_content
from gpu2npu.project.tree.staging import staged
from gpu2npu.project.workers import migrate_files
from gpu2npu.records import MigratedFile, Outcome, PathNote
from gpu2npu.report.launcher import LAUNCHER_NAME, trains_on_several_cards, write_launcher
from gpu2npu.report.log import LOG_NAME, write_log
from gpu2npu.report.names import HEAD_BYTES, ReportNames, choose_names, may_be_report
from gpu2npu.report.tables import write_tables
from gpu2npu.support.limits import DEFAULT_CHIP


@dataclass(frozen=True)
class Preview:
    """The preview of a migration: its outcome, and the bytes of each file that it would change."""

    outcome: Outcome
    before: dict[str, bytes]


def migrate_project(
    request: Request,
    progress: Progress = no_progress,
    *,
    prepare: Prepare = prepare_migration,
    executor: Executor | None = None,
) -> tuple[Outcome, Path]:
    """Writes the migrated copy and its reports; returns what was done and the folder written.

    Raises UsageError if the request cannot be carried out and OutputError if the output cannot be written; either
    leaves the file system as it was.
    """
    started = time.perf_counter()
    place = check_request(request, request.suffix)
    if place.destination is None:
        raise ValueError("a migration that writes needs request.output")
    tree = discover(place.root, place.only)
    names = _report_names(place, tree)
    tree = replace(tree, others=tuple(path for path in tree.others if path not in names.replaced))
    with staged(place.destination, replace=request.force) as copy:
        outcome, _, new_files = _migrate(request, place, tree, progress, prepare, executor)
        notes = {*outcome.notes, *mirror(tree, place.root, copy)}
        unread = {note.path for note in notes if note.failed}
        copied = tuple(path for path in outcome.copied if path not in unread)
        for file in outcome.files:
            if file.content is not None:
                replace_content(copy / file.path, file.content)
        for path, content in new_files.items():
            add_file(copy / path, content)
        outcome = replace(outcome, notes=tuple(sorted(notes)), copied=copied, seconds=time.perf_counter() - started)
        _write_reports(outcome, copy, names, request)
        if place.only is None:
            finish_folders(tree, place.root, copy)
    return outcome, place.destination


def preview_project(
    request: Request,
    progress: Progress = no_progress,
    *,
    prepare: Prepare = prepare_migration,
    executor: Executor | None = None,
) -> Preview:
    """Preview what `migrate_project` would do; writes nothing. Raises UsageError."""
    started = time.perf_counter()
    place = check_request(request, request.suffix)
    tree = discover(place.root, place.only)
    outcome, sources, _ = _migrate(request, place, tree, progress, prepare, executor)
    changed = {file.path: sources[file.path] for file in outcome.files if file.content is not None}
    return Preview(replace(outcome, seconds=time.perf_counter() - started), changed)


def _migrate(
    request: Request, place: Place, tree: Tree, progress: Progress, prepare: Prepare, executor: Executor | None
) -> tuple[Outcome, dict[str, bytes], Mapping[str, bytes]]:
    """The outcome, without what only writing shows, the bytes of every file that was looked at, and files to add."""
    sources, unread = read_files(place.root, tree.python)
    excluded = frozenset(path for path in sources if request.excludes(path))
    codemods = replace(request.codemods, excluded=excluded)
    pool = Pool(request.jobs or available_cpus(), executor, request.file_timeout)
    planning = PartPlanning(pool, progress)
    chips = request.chips or (DEFAULT_CHIP,)
    migrator = prepare(request.choice, request.release, place.root, sources, codemods, spread=planning, chips=chips)
    files = {path: MigratedFile(path) for path in sources}
    concerned = {
        path: source for path, source in sources.items() if path not in excluded and migrator.concerns(source, path)
    }
    others, unread_others = _others(request, place, tree, migrator)
    done, total = len(sources) - len(concerned), len(sources) + len(others)
    with closing(migrate_files(migrator, concerned | others, pool)) as migrated:
        for file in migrated:
            if file.path in sources or file.content is not None or file.findings or file.failure or file.advice:
                files[file.path] = file
            done += 1
            progress(done, total)
    native, unread_native = read_files(place.root, (path for path in tree.others if is_native(path)))
    looked_at = {path: source for path, source in (native | sources).items() if not request.excludes(path)}
    outcome = Outcome(
        name=place.name,
        files=tuple(files[path] for path in sorted(files)),
        copied=tuple(path for path in tree.others if path not in files),
        skipped=tree.skipped,
        notes=tuple(sorted({*tree.notes, *unread, *unread_others, *unread_native})),
        native=native_places(looked_at),
    )
    return outcome, sources | others, migrator.new_files


def _others(request: Request, place: Place, tree: Tree, migrator: Migrator) -> tuple[dict[str, bytes], list[PathNote]]:
    """The files that are not Python and may need migrating, and a note for each that cannot be looked at."""
    wanted = []
    for path in tree.others:
        kind = (
            None if request.excludes(path) else kind_of(path, read_head(place.root / path) if needs_head(path) else b"")
        )
        if kind is not None and kind.value not in request.skip_kinds:
            wanted.append(path)
    found, notes = {}, []
    for path in wanted:
        contents, unread = read_files(place.root, [path])
        found.update({path: source for path, source in contents.items() if migrator.concerns_other(source, path)})
        notes += unread
    return found, notes


def _report_names(place: Place, tree: Tree) -> ReportNames:
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


def _write_reports(outcome: Outcome, copy: Path, names: ReportNames, request: Request) -> None:
    write_tables(outcome, copy, names.names)
    if request.command or (trains_on_several_cards(outcome) and not names.kept_launcher):
        write_launcher(copy / names.names[LAUNCHER_NAME], request.command)
    opening = f"{__version__}: '{request.source}', written for PyTorch {request.version}"
    write_log(outcome, copy / names.names[LOG_NAME], request.log_level, opening)
