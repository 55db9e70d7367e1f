"""The answers about a source tree, worked out: each file from the cache, or from the engine and into the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu2npu.analysis.cuda_cpp.sources import native_code, native_places
from gpu2npu.project.cache.answers import Cache, FileAnswer, own_facts, shared_facts
from gpu2npu.project.cache.folder import prune
from gpu2npu.project.cache.traced import TracedFile, TracedMigrator
from gpu2npu.project.check.stored_tree import StoredTree, TreeAnswers
from gpu2npu.project.check.tree_files import TreeFiles
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.tree.parts import kernels_apart
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import MigratedFile
from gpu2npu.report.check.result import NativeCode
from gpu2npu.report.diff import unified_diff


def work_out(files: TreeFiles, stored: StoredTree | None) -> TreeAnswers:
    """The answers about a tree with such files, which go to `stored` where there is a place.

    Raises UsageError if a rule file cannot be used.
    """
    migrator = files.session.migrator()
    looked_at = _Files(files, migrator, _cache(files, migrator))
    looked_at.look()
    answers = TreeAnswers(looked_at.entries, _native_code(files))
    if stored is not None:
        stored.put(answers, looked_at.names)
    return answers


def _native_code(files: TreeFiles) -> NativeCode:
    if not files.native and not _has_kernels(files.session.python):
        return NativeCode()
    sources = {**files.session.python, **files.native}
    places = native_places(sources)
    return replace(native_code(places, sources), apart=kernels_apart(places, sources))


def _has_kernels(python: Mapping[str, bytes]) -> bool:
    return any(b"__global__" in source or b"CUDAExtension" in source for source in python.values())


def _cache(files: TreeFiles, migrator: Migrator) -> Cache | None:
    if files.session.cache is None:
        return None
    settings = files.tree.settings
    shared = shared_facts(migrator, settings.rules, files.choice.diffs, settings.chips, sorted(settings.skip_rules))
    return Cache(files.session.cache, shared, files.session.digests)


@dataclass(frozen=True)
class _Files:
    """The files of a tree that are looked into, and the entry of each, with its name in the cache, as it is found."""

    files: TreeFiles
    migrator: Migrator
    cache: Cache | None
    entries: dict[str, FileAnswer] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Find the entry of each file."""
        session, wanted = self.files.session, self.files.wanted
        concerned: dict[str, bytes] = {}
        for path, source in wanted.items():
            entry = self._stored(path, source)
            if entry is not None:
                self.entries[path] = entry
            elif self.migrator.concerns(source, path):
                concerned[path] = source
            else:
                self._add(MigratedFile(path), source)
        session.progress(len(self.entries), len(wanted))
        traced = TracedMigrator(self.migrator)
        with session.outcomes(traced, concerned, len(self.entries)) as outcomes:
            for file in outcomes:
                self._add(file, wanted[file.path])
        if self.cache is not None and concerned:
            prune(self.cache.folder)

    def _stored(self, path: str, source: bytes) -> FileAnswer | None:
        if self.cache is None:
            return None
        self.names[path] = self.cache.name(path, source, own_facts(self.migrator, path))
        return self.cache.get(self.names[path], path)

    def _add(self, file: MigratedFile, source: bytes) -> None:
        """Take the answer about a file, and store it unless it failed: memory or time may have run out."""
        depends = file.depends if isinstance(file, TracedFile) else 0
        entry = FileAnswer(MigratedFile(file.path, changes=file.changes, findings=file.findings, failure=file.failure))
        if self.files.choice.diffs and file.content is not None:
            text = unified_diff(self.files.tree.prefix + file.path, source, file.content)
            entry = replace(entry, diff=text.decode(declared_encoding(source), "replace"))
        self.entries[file.path] = entry
        if self.cache is not None and file.failure is None:
            self.cache.put(self.names[file.path], entry, depends)
