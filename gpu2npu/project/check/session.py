"""A check of source trees: what a migration would do and what it would leave to a person, with nothing written."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu import __version__
from gpu2npu.formats.kinds import HEAD_BYTES, kind_of
from gpu2npu.near_names import did_you_mean
from gpu2npu.project.cache.store import Store
from gpu2npu.project.check.baseline import (
    Baseline,
    baseline_path,
    checked_file,
    expired,
    mark_known,
    read_baseline,
    updated,
    write_baseline,
)
from gpu2npu.project.check.choice import DEFAULT_CHOICE, CheckChoice, SourceTree, TreeFiles, source_trees
from gpu2npu.project.check.notes import plugin_note, rule_notes, unsourced_scripts
from gpu2npu.project.check.readiness import readiness
from gpu2npu.project.check.stored_tree import StoredTree
from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.parts import parts_of
from gpu2npu.records import PathNote
from gpu2npu.report.check.result import CheckedFile, CheckResult, NativeCode
from gpu2npu.support.cann import cann_for
from gpu2npu.support.release_tables import table_for
from gpu2npu.support.releases import pytorch_of


class _Checked(Struct, frozen=True):
    """The result of checking one source tree, with paths from the root of the check."""

    files: tuple[CheckedFile, ...]
    notes: tuple[PathNote, ...]
    native: NativeCode


def check_project(
    sources: Sequence[Path],
    settings: Settings,
    choice: CheckChoice = DEFAULT_CHOICE,
    progress: Progress = no_progress,
) -> tuple[CheckResult, bool]:
    """The result, and whether the version was chosen here. Raises UsageError, and OutputError for the baseline."""
    started = time.perf_counter()
    trees, root, chosen = source_trees(sources, settings, choice)
    store = Store(choice.cache) if choice.cache is not None else None
    notes = rule_notes(trees[0].settings.rules, store)
    reported = _reported_rules(choice, sorted(notes.rules))
    baseline = _baseline(choice)
    checked = [_check_tree(tree, choice, store, progress) for tree in trees]
    files = tuple(
        sorted((_filtered(file, reported) for each in checked for file in each.files), key=lambda file: file.path)
    )
    left: Baseline = {}
    if choice.baseline is not None:
        below = {baseline_path(f"{tree.prefix}{tree.location.only or ''}", root, choice.baseline) for tree in trees}
        left = expired(files, baseline, root, choice.baseline, below, reported)
        if choice.update_baseline:
            baseline = updated(files, baseline, left, root, choice.baseline)
            write_baseline(baseline, choice.baseline)
            left = {}
        files = mark_known(files, baseline, root, choice.baseline)
    native = _sum(each.native for each in checked)
    met = {found.finding.rule for file in files for found in file.findings}
    release = trees[0].settings.release
    problems = tuple(sorted({note for each in checked for note in each.notes}))
    result = CheckResult(
        name=", ".join(dict.fromkeys(tree.location.name for tree in trees)),
        version=pytorch_of(trees[0].settings.version),
        evidence=f"{table_for(release).evidence}, CANN {cann_for(release).version}",
        chips=tuple(dict.fromkeys(chip for tree in trees for chip in tree.settings.chips)),
        tool_version=__version__,
        root=str(root),
        shown_root="" if root == Path.cwd().resolve() else f"{str(root).rstrip('/')}/",
        files=files,
        readiness=readiness(
            files,
            native,
            plugin_note(trees[0].location.root, notes.plugins) if len(trees) == 1 else "",
            sum(note.failed for note in problems),
        ),
        rules=tuple(notes.rules[rule] for rule in sorted(met)),
        notes=problems,
        native=native,
        expired=sum(len(entries) for entries in left.values()),
        seconds=time.perf_counter() - started,
    )
    return result, chosen


def _reported_rules(choice: CheckChoice, known: list[str]) -> set[str]:
    """The ids of the rules whose findings are reported. Raises UsageError for an id or pattern that fits none."""
    for pattern in (*choice.select, *choice.ignore):
        if not any(fnmatchcase(rule, pattern) for rule in known):
            hint = did_you_mean(pattern, known) or "`gpu2npu rules list` shows them all."
            raise UsageError(f"No rule is called {pattern!r}; {hint}")
    selected = {rule for rule in known if not choice.select or _fits(rule, choice.select)}
    return {rule for rule in selected if not _fits(rule, choice.ignore)}


def _fits(rule: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(rule, pattern) for pattern in patterns)


def _baseline(choice: CheckChoice) -> Baseline:
    if choice.baseline is None:
        if choice.update_baseline:
            raise UsageError("--update-baseline needs --baseline FILE, the file to update.")
        return {}
    if choice.update_baseline and not choice.baseline.exists():
        return {}
    return read_baseline(choice.baseline)


def _filtered(file: CheckedFile, reported: set[str]) -> CheckedFile:
    return replace(file, findings=tuple(found for found in file.findings if found.finding.rule in reported))


def _sum(parts: Iterable[NativeCode]) -> NativeCode:
    total = NativeCode()
    for part in parts:
        total = NativeCode(**{name: getattr(total, name) + getattr(part, name) for name in total.__struct_fields__})
    return total


def _check_tree(tree: SourceTree, choice: CheckChoice, store: Store | None, progress: Progress) -> _Checked:
    session = Session(tree.location, tree.settings, progress, excludes=tree.excludes, store=store)
    files = TreeFiles(tree, choice, session, session.others(), session.native())
    stored = StoredTree.of(store, files) if store is not None else None
    answers = stored.get() if stored is not None else None
    if answers is not None:
        progress(len(answers.entries), len(answers.entries))
    else:
        from gpu2npu.project.check.tree_answers import (
            work_out,  # importing the engine takes longer than all the rest here
        )

        answers = work_out(files, stored)
    wanted = files.wanted
    part = parts_of(wanted)
    checked = tuple(
        checked_file(entry.file, wanted[path], tree.prefix + path, part(path), entry.diff, answers.later.get(path, ()))
        for path, entry in sorted(answers.entries.items())
    )
    notes = tuple(
        replace(note, path=f"{tree.prefix}{note.path}") for note in (*session.notes, *unsourced_scripts(wanted))
    )
    return _Checked(checked, notes, answers.native)


def check_text(
    text: bytes, name: str, settings: Settings, choice: CheckChoice, progress: Progress = no_progress
) -> tuple[CheckResult, bool]:
    """The result for a text as if it were the only file of the current folder, called `name`, and as check_project
    says, whether the version was chosen here. The settings are those of the place that `name` is for.

    Raises UsageError where no file of that name is looked into, or a baseline is asked for.
    """
    place = Path(os.path.relpath(name or os.curdir))
    path = PurePath(place.name) if ".." in place.parts else PurePath(place)
    if kind_of(path.name, text[:HEAD_BYTES]) is None:
        raise UsageError(f"Files named {name!r} are not checked; give a name such as train.py or run.sh.")
    if choice.baseline is not None:
        raise UsageError("A baseline is about files; standard input has none.")
    with tempfile.TemporaryDirectory(prefix="gpu2npu-") as folder:
        root = Path(os.path.realpath(folder))
        _write(root / path, text)
        choice = replace(choice, settings_of=place.parent, root=root)
        result, chosen = check_project((root / path,), settings, choice, progress)
    return replace(result, name=path.as_posix(), root=os.path.realpath(Path.cwd()), shown_root=""), chosen


def _write(file: Path, text: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    except OSError as error:
        raise OutputError(f"Standard input could not be stored for the check: {error.strerror}.") from error
