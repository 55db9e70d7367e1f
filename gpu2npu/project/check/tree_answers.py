"""The answers about a source tree, worked out: each file from the cache, or from the engine and into the cache."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, replace

from gpu2npu.analysis.cuda_cpp.sources import native_code, native_places
from gpu2npu.project.analysing_migrator import AnalysingMigrator
from gpu2npu.project.cache.answers import Cache, Entry, content_digests, own_facts, shared_facts
from gpu2npu.project.cache.folder import prune
from gpu2npu.project.cache.project_facts import ProjectFactsCache
from gpu2npu.project.cache.traced import TracedFile, TracedMigrator
from gpu2npu.project.check.request import CheckRequest, SourceTree
from gpu2npu.project.check.stored_tree import StoredTree, TreeAnswers
from gpu2npu.project.check.tree_files import TreeFiles
from gpu2npu.project.engine_migrator import EngineMigrator
from gpu2npu.project.migrator import prepare_migration
from gpu2npu.project.planning import PartPlanning
from gpu2npu.project.pool import Pool
from gpu2npu.project.processes import available_cpus
from gpu2npu.project.progress import Progress
from gpu2npu.project.tree.parts import kernels_apart
from gpu2npu.project.workers import migrate_files
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import MigratedFile
from gpu2npu.report.check.result import NativeCode
from gpu2npu.report.diff import unified_diff


def work_out(
    tree: SourceTree,
    request: CheckRequest,
    files: TreeFiles,
    kept: StoredTree | None,
    progress: Progress,
    executor: Executor | None,
) -> TreeAnswers:
    """The answers about a tree with such files, which go to `kept` where there is a place.

    Raises UsageError if a rule file cannot be used.
    """
    contents = content_digests(files.python) if request.cache is not None else {}
    migrator = _migrator(tree, request, files, contents, progress, executor)
    cache = _cache(tree, request, migrator, contents)
    looked_at = _Files(tree, request, migrator, files.wanted, cache)
    looked_at.look(progress, executor)
    answers = TreeAnswers(looked_at.entries, _native_code(files))
    if kept is not None:
        kept.put(answers, looked_at.names)
    return answers


def _migrator(
    tree: SourceTree,
    request: CheckRequest,
    files: TreeFiles,
    contents: Mapping[str, str],
    progress: Progress,
    executor: Executor | None,
) -> TracedMigrator:
    engine = prepare_migration(
        tree.request.choice,
        tree.request.release,
        tree.place.root,
        files.python,
        replace(tree.request.codemods, excluded=files.excluded),
        ProjectFactsCache(request.cache, contents) if request.cache is not None else None,
        spread=PartPlanning(_pool(request, executor), progress),
        chips=tree.request.chips,
    )
    assert isinstance(engine, AnalysingMigrator) and isinstance(engine.migrator, EngineMigrator)
    return TracedMigrator(engine, engine.migrator)


def _pool(request: CheckRequest, executor: Executor | None) -> Pool:
    return Pool(request.jobs or available_cpus(), executor, request.file_timeout)


def _native_code(files: TreeFiles) -> NativeCode:
    if not files.native and not _has_kernels(files.python):
        return NativeCode()
    sources = {**files.python, **files.native}
    places = native_places(sources)
    return replace(native_code(places, sources), apart=kernels_apart(places, sources))


def _has_kernels(python: Mapping[str, bytes]) -> bool:
    return any(b"__global__" in source or b"CUDAExtension" in source for source in python.values())


def _cache(
    tree: SourceTree, request: CheckRequest, migrator: TracedMigrator, contents: Mapping[str, str]
) -> Cache | None:
    if request.cache is None:
        return None
    shared = shared_facts(
        migrator.engine, tree.request.rules, request.diffs, tree.request.chips, sorted(tree.request.skip_rules)
    )
    return Cache(request.cache, shared, contents)


@dataclass(frozen=True)
class _Files:
    """The files of a tree that are looked into, and the entry of each, with its name in the cache, as it is found."""

    tree: SourceTree
    request: CheckRequest
    migrator: TracedMigrator
    wanted: Mapping[str, bytes]
    cache: Cache | None
    entries: dict[str, Entry] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def look(self, progress: Progress, executor: Executor | None) -> None:
        """Find the entry of each file."""
        concerned: dict[str, bytes] = {}
        for path, source in self.wanted.items():
            entry = self._kept(path, source)
            if entry is not None:
                self.entries[path] = entry
            elif self._concerns(path, source):
                concerned[path] = source
            else:
                self._add(MigratedFile(path))
        progress(len(self.entries), len(self.wanted))
        with closing(migrate_files(self.migrator, concerned, _pool(self.request, executor))) as migrated:
            for file in migrated:
                self._add(file)
                progress(len(self.entries), len(self.wanted))
        if self.cache is not None and concerned:
            prune(self.cache.folder)

    def _kept(self, path: str, source: bytes) -> Entry | None:
        if self.cache is None:
            return None
        self.names[path] = self.cache.name(path, source, own_facts(self.migrator.engine, path))
        return self.cache.get(self.names[path], path)

    def _concerns(self, path: str, source: bytes) -> bool:
        if path.endswith(".py"):
            return self.migrator.concerns(source, path)
        return self.migrator.concerns_other(source, path)

    def _add(self, file: MigratedFile) -> None:
        """Take the answer about a file, and keep it unless it failed: memory or time may have run out."""
        depends = file.depends if isinstance(file, TracedFile) else 0
        entry = Entry(MigratedFile(file.path, changes=file.changes, findings=file.findings, failure=file.failure))
        if self.request.diffs and file.content is not None:
            source = self.wanted[file.path]
            text = unified_diff(self.tree.prefix + file.path, source, file.content)
            entry = replace(entry, diff=text.decode(declared_encoding(source), "replace"))
        self.entries[file.path] = entry
        if self.cache is not None and file.failure is None:
            self.cache.put(self.names[file.path], entry, depends)
