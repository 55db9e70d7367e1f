"""A check of source trees: what a migration would do and what it would leave to a person, with nothing written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from gpu2npu import __version__
from gpu2npu.analysis.cuda_sources import is_native, native_code, native_places
from gpu2npu.analysis.limit_findings import RULE as NPU_LIMIT
from gpu2npu.analysis.torch_apis import RULE as TORCH_API
from gpu2npu.formats.kinds import kind_of, needs_head
from gpu2npu.formats.packages import WHY as REQUIREMENTS
from gpu2npu.near_names import did_you_mean
from gpu2npu.project.analysing_migrator import AnalysingMigrator
from gpu2npu.project.baseline import (
    Baseline,
    baseline_path,
    expired,
    mark_known,
    read_baseline,
    updated,
    write_baseline,
)
from gpu2npu.project.cache import Cache, content_digests, own_facts, shared_facts
from gpu2npu.project.cache_folder import prune
from gpu2npu.project.check_request import CheckRequest, SourceTree, source_trees
from gpu2npu.project.checked_places import checked_file
from gpu2npu.project.discovery import Tree, discover
from gpu2npu.project.engine_migrator import EngineMigrator
from gpu2npu.project.errors import UsageError
from gpu2npu.project.gathered import GatheredCache
from gpu2npu.project.migrator import prepare_migration
from gpu2npu.project.mirror import read_files, read_head
from gpu2npu.project.parts import kernels_apart, parts_of
from gpu2npu.project.planning import PartPlanning
from gpu2npu.project.processes import available_cpus
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.readiness import readiness
from gpu2npu.project.traced import TracedMigrator
from gpu2npu.project.workers import migrate_files
from gpu2npu.python.source import declared_encoding
from gpu2npu.records import MigratedFile, PathNote
from gpu2npu.report.check_result import CheckedFile, CheckResult, NativeCode, Part, RuleNote
from gpu2npu.report.diff import unified_diff
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.reference import page_of
from gpu2npu.support.cann import cann_for
from gpu2npu.support.tables import table_for

# What the rules of analyses are about; other rules say so themselves.
_ANALYSES = {
    TORCH_API: "A torch API that the NPU lacks, runs on the CPU, or that no table knows.",
    NPU_LIMIT: "A call that fails on the NPU for its dtype, an argument or a layout.",
    **REQUIREMENTS,
}


@dataclass(frozen=True)
class _Checked:
    """The result of checking one source tree, with paths from the root of the check."""

    files: tuple[CheckedFile, ...]
    notes: tuple[PathNote, ...]
    native: NativeCode


def check_project(
    request: CheckRequest,
    progress: Progress = no_progress,
    *,
    executor: Executor | None = None,
) -> tuple[CheckResult, bool]:
    """The result, and whether the version was not asked for but chosen here. Raises UsageError, and OutputError where
    the baseline cannot be written."""
    started = time.perf_counter()
    trees, root, chosen = source_trees(request)
    rules = _rules(trees[0].request.rules)
    told = _told_rules(request, [rule.id for rule in rules])
    baseline = _baseline(request)
    checked = [_check_tree(tree, request, progress, executor) for tree in trees]
    files = tuple(
        sorted((_filtered(file, told) for each in checked for file in each.files), key=lambda file: file.path)
    )
    left = Baseline()
    if request.baseline is not None:
        below = {baseline_path(f"{tree.prefix}{tree.place.only or ''}", root, request.baseline) for tree in trees}
        left = expired(files, baseline, root, request.baseline, below, told)
        if request.update_baseline:
            baseline = updated(files, baseline, left, root, request.baseline)
            write_baseline(baseline, request.baseline)
            left = Baseline()
        files = mark_known(files, baseline, root, request.baseline)
    native = _sum(each.native for each in checked)
    met = {found.finding.rule for file in files for found in file.findings}
    release = trees[0].request.release
    result = CheckResult(
        name=", ".join(dict.fromkeys(tree.place.name for tree in trees)),
        version=trees[0].request.version,
        evidence=f"{table_for(release).evidence}, CANN {cann_for(release).version}",
        chips=request.chips,
        tool_version=__version__,
        root=str(root),
        shown_root="" if root == Path.cwd().resolve() else f"{str(root).rstrip('/')}/",
        files=files,
        readiness=readiness(files, native),
        rules=tuple(rule for rule in rules if rule.id in met),
        notes=tuple(sorted({note for each in checked for note in each.notes})),
        native=native,
        expired=sum(len(entries) for entries in left.findings.values()),
        seconds=time.perf_counter() - started,
    )
    return result, chosen


def _rules(files: tuple[Path, ...]) -> tuple[RuleNote, ...]:
    from gpu2npu.rulebook import RuleError

    try:
        rulebook = load_rulebook(files)
    except RuleError as error:
        raise UsageError(str(error)) from error
    own = [RuleNote(rule.id, rule.why, page_of(rule)) for rule in rulebook.rules]
    analyses = (RuleNote(name, why, "api-facts.md") for name, why in _ANALYSES.items())
    return tuple(sorted((*own, *analyses), key=lambda rule: rule.id))


def _told_rules(request: CheckRequest, known: list[str]) -> set[str]:
    """The ids of the rules whose findings are reported. Raises UsageError for an id or pattern that fits none."""
    for pattern in (*request.select, *request.ignore):
        if not any(fnmatchcase(rule, pattern) for rule in known):
            hint = did_you_mean(pattern, known) or "`gpu2npu rules list` shows them all."
            raise UsageError(f"No rule is called {pattern!r}; {hint}")
    selected = {rule for rule in known if not request.select or _fits(rule, request.select)}
    return {rule for rule in selected if not _fits(rule, request.ignore)}


def _fits(rule: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(rule, pattern) for pattern in patterns)


def _baseline(request: CheckRequest) -> Baseline:
    if request.baseline is None:
        if request.update_baseline:
            raise UsageError("--update-baseline needs --baseline FILE, the file to update.")
        return Baseline()
    if request.update_baseline and not request.baseline.exists():
        return Baseline()
    return read_baseline(request.baseline)


def _filtered(file: CheckedFile, told: set[str]) -> CheckedFile:
    return replace(file, findings=tuple(found for found in file.findings if found.finding.rule in told))


def _sum(parts: Iterable[NativeCode]) -> NativeCode:
    total = NativeCode()
    for part in parts:
        total = NativeCode(**{name: getattr(total, name) + getattr(part, name) for name in vars(total)})
    return total


def _check_tree(tree: SourceTree, request: CheckRequest, progress: Progress, executor: Executor | None) -> _Checked:
    place = tree.place
    found = discover(place.root, place.only)
    python, unread = read_files(place.root, found.python)
    others, unread_others = read_files(place.root, _of_some_kind(tree, found))
    excluded = frozenset(path for path in python if tree.excludes(path))
    contents = content_digests(python) if request.cache is not None else {}
    engine = prepare_migration(
        tree.request.choice,
        tree.request.release,
        place.root,
        python,
        replace(tree.request.codemods, excluded=excluded),
        GatheredCache(request.cache, contents) if request.cache is not None else None,
        spread=PartPlanning(request.jobs or available_cpus(), executor, request.file_timeout, progress),
        chips=request.chips,
    )
    assert isinstance(engine, AnalysingMigrator) and isinstance(engine.migrator, EngineMigrator)
    migrator = TracedMigrator(engine, engine.migrator)
    wanted = {path: source for path, source in python.items() if path not in excluded} | others
    cache = _cache(tree, request, migrator, contents)
    files = _files(tree, request, migrator, wanted, cache, progress, executor)
    native, unread_native = read_files(place.root, (path for path in found.others if is_native(path)))
    native = {path: source for path, source in native.items() if not tree.excludes(path)}
    code = _native_code(python | native) if native or _has_kernels(python) else NativeCode()
    notes = {*found.notes, *unread, *unread_others, *unread_native}
    return _Checked(files, tuple(replace(note, path=f"{tree.prefix}{note.path}") for note in notes), code)


def _native_code(files: Mapping[str, bytes]) -> NativeCode:
    places = native_places(files)
    return replace(native_code(places, files), apart=kernels_apart(places, files))


def _has_kernels(python: Mapping[str, bytes]) -> bool:
    return any(b"__global__" in source or b"CUDAExtension" in source for source in python.values())


def _of_some_kind(tree: SourceTree, found: Tree) -> list[str]:
    """The files that are not Python and that a migration looks into."""
    wanted = []
    for path in found.others:
        head = read_head(tree.place.root / path) if needs_head(path) else b""
        kind = kind_of(path, head)
        if kind is not None and kind.value not in tree.request.skip_kinds and not tree.excludes(path):
            wanted.append(path)
    return wanted


def _cache(
    tree: SourceTree, request: CheckRequest, migrator: TracedMigrator, contents: Mapping[str, str]
) -> Cache | None:
    if request.cache is None:
        return None
    shared = shared_facts(
        migrator.engine, tree.request.rules, request.diffs, request.chips, sorted(tree.request.skip_rules)
    )
    return Cache(request.cache, shared, contents)


def _files(
    tree: SourceTree,
    request: CheckRequest,
    migrator: TracedMigrator,
    wanted: Mapping[str, bytes],
    cache: Cache | None,
    progress: Progress,
    executor: Executor | None,
) -> tuple[CheckedFile, ...]:
    """Each file from the cache, or from the engine and into the cache."""
    checked: dict[str, CheckedFile] = {}
    part = parts_of(wanted)
    concerned: dict[str, bytes] = {}
    for path, source in wanted.items():
        entry = cache.get(path, source, own_facts(migrator.engine, path)) if cache is not None else None
        if entry is not None:
            checked[path] = checked_file(entry.file, source, tree.prefix + path, part(path), entry.diff)
        elif _concerns(migrator, path, source):
            concerned[path] = source
        else:
            checked[path] = _finish(MigratedFile(path), source, tree, part(path), request, cache, migrator)
    total = len(wanted)
    progress(len(checked), total)
    jobs = request.jobs or available_cpus()
    with closing(migrate_files(migrator, concerned, jobs, executor, request.file_timeout)) as migrated:
        for file in migrated:
            checked[file.path] = _finish(file, wanted[file.path], tree, part(file.path), request, cache, migrator)
            progress(len(checked), total)
    if cache is not None and concerned:
        prune(cache.folder)
    return tuple(checked[path] for path in sorted(checked))


def _concerns(migrator: TracedMigrator, path: str, source: bytes) -> bool:
    return migrator.concerns(source, path) if path.endswith(".py") else migrator.concerns_other(source, path)


def _finish(
    file: MigratedFile,
    source: bytes,
    tree: SourceTree,
    part: Part,
    request: CheckRequest,
    cache: Cache | None,
    migrator: TracedMigrator,
) -> CheckedFile:
    diff = ""
    if request.diffs and file.content is not None:
        text = unified_diff(tree.prefix + file.path, source, file.content)
        diff = text.decode(declared_encoding(source), "replace")
    if cache is not None:
        cache.put(source, own_facts(migrator.engine, file.path), file, diff)
    return checked_file(file, source, tree.prefix + file.path, part, diff)
