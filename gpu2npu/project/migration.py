"""A whole migration: find the files, migrate them in parallel, write the tree and its reports. A person may
take or leave its hunks: runs of changed lines, as `git add -p` has them."""

from __future__ import annotations

import difflib
import itertools
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu import __version__
from gpu2npu.analysis.cuda_cpp.sources import native_places
from gpu2npu.project.location import Location, Output, changed_files, locate
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import Tree
from gpu2npu.project.tree.mirror import add_file, finish_folders, mirror, read_head, replace_content
from gpu2npu.project.tree.staging import staged
from gpu2npu.python.text.offsets import lines_with_ends
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import Change, Finding, FindingKind, MigratedFile, Operation, Outcome, PathNote, Span
from gpu2npu.report.launcher import LAUNCHER_NAME, launcher_bytes, trains_on_several_cards, write_launcher
from gpu2npu.report.log import LOG_LINE, LOG_NAME, write_log
from gpu2npu.report.tables import HEADERS, header_line, write_tables
from gpu2npu.rulebook.in_code import UNREAD

if TYPE_CHECKING:
    from gpu2npu.project.migrator import Migrator


class Hunk(Struct, frozen=True):
    """Lines of one file that a migration replaces: lines `start` to `end` of the source, from 0, the end exclusive.

    `changes` are those that touch these lines; `context` are some lines before and after.
    """

    path: str
    start: int
    end: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    context: tuple[tuple[str, ...], tuple[str, ...]]
    changes: tuple[Change, ...]


# Says which of the hunks of all files are taken.
Choose = Callable[[Sequence[Hunk]], Sequence[bool]]
_CONTEXT = 3


def hunks_of(file: MigratedFile, source: bytes) -> tuple[Hunk, ...]:
    """The hunks of one file that a migration changes, in order."""
    if file.content is None:
        return ()
    encoding = declared_encoding(source)
    old, new = lines_with_ends(source.decode(encoding)), lines_with_ends(file.content.decode(encoding))
    hunks = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            context = tuple(old[max(start - _CONTEXT, 0) : start]), tuple(old[end : end + _CONTEXT])
            changes = tuple(change for change in file.changes if _touches(change, start, end))
            hunks.append(Hunk(file.path, start, end, tuple(old[start:end]), tuple(new[first:last]), context, changes))
    return tuple(hunks)


def with_hunks(file: MigratedFile, source: bytes, taken: Sequence[Hunk]) -> MigratedFile:
    """The file with these of its hunks only, and their changes; without any, it stays as it is."""
    if not taken:
        return replace(file, content=None, changes=())
    encoding = declared_encoding(source)
    lines = lines_with_ends(source.decode(encoding))
    for hunk in sorted(taken, key=lambda each: -each.start):
        lines[hunk.start : hunk.end] = hunk.after
    changes = tuple(change for change in file.changes if any(change in hunk.changes for hunk in taken))
    return replace(file, content="".join(lines).encode(encoding), changes=changes)


def _touches(change: Change, start: int, end: int) -> bool:
    """Return whether a change, whose lines count from 1, is at these lines; an insertion is beside them."""
    first, last = change.span.start_line - 1, change.span.end_line - 1
    if start == end:
        return change.operation is Operation.INSERT and first in (start - 1, start)
    return first < end and last >= start


Prepare = Callable[[Session], "Migrator"]


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
    session = Session(location, settings, progress)
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
) -> Preview:
    """Preview what `migrate_project` would do; writes nothing. Raises UsageError."""
    started = time.perf_counter()
    session = Session(locate(source, settings), settings, progress)
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
    """The record of a file that could not be migrated with a finding about that, for the tables."""
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
            heads[path] = read_head(place.root / path, _REPORT_HEAD)
    return choose_names(at_root, heads)


def _write_reports(outcome: Outcome, copy: Path, names: ReportNames, output: Output, opening: str) -> None:
    write_tables(outcome, copy, names.names)
    if output.command or (trains_on_several_cards(outcome) and not names.retained_launcher):
        write_launcher(copy / names.names[LAUNCHER_NAME], output.command)
    write_log(outcome, copy / names.names[LOG_NAME], output.log_level, opening)


# Reports have other names where the project has files of these at its own root. A report that an earlier migration
# wrote is replaced; a file of the project's own keeps its name, and the report is `gpu2npu_<name>` beside it.
REPORTS = (*HEADERS, LOG_NAME, LAUNCHER_NAME)
# Bytes of a file that show whether it is a report of ours.
_REPORT_HEAD = 256

_RENAMED = re.compile(r"^(?:gpu2npu_(?:\d+_)?)?(.+?)(?:\.\d+)?$")


class ReportNames(Struct, frozen=True):
    """`names` maps each report to its file name in the output's root. `replaced` are the project's files that an
    earlier migration wrote and that give way. `retained_launcher`: the project has the launcher, perhaps filled in.
    """

    names: Mapping[str, str]
    replaced: frozenset[str]
    retained_launcher: bool


def choose_names(root_names: Collection[str], heads: Mapping[str, bytes]) -> ReportNames:
    """`root_names` is everything at the project's root; `heads` the first bytes of what `may_be_report`."""
    ours = {name for name, head in heads.items() if _is_ours(name, head)}
    launchers = {name for name in ours if _report_of(name) == LAUNCHER_NAME}
    taken = set(root_names) - ours
    names = {report: next(name for name in _candidates(report) if name not in taken) for report in REPORTS}
    return ReportNames(names, frozenset(ours - launchers), bool(launchers))


def may_be_report(name: str) -> bool:
    """Return whether a file of this name at a project's root may be the work of an earlier migration."""
    return _report_of(name) in REPORTS


def _report_of(name: str) -> str:
    match = _RENAMED.match(name)
    return match[1] if match else name


def _candidates(report: str) -> itertools.chain[str]:
    return itertools.chain([report, f"gpu2npu_{report}"], (f"gpu2npu_{count}_{report}" for count in itertools.count(2)))


def _is_ours(name: str, head: bytes) -> bool:
    report = _report_of(name)
    if report == LAUNCHER_NAME:
        return head.split(b"\n")[:2] == launcher_bytes().split(b"\n")[:2]
    if report == LOG_NAME:
        return LOG_LINE.match(head) is not None
    return report in HEADERS and head.startswith(header_line(report))
