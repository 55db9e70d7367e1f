"""The answers about a source tree, worked out: each file from the store, or from the engine and into the store."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gpu2npu.analysis.cuda_cpp.sources import native_code, native_places
from gpu2npu.project.cache.answers import FileAnswer, FileAnswers, data_digests, own_facts, shared_facts
from gpu2npu.project.check.later import LaterCode, may_be_later
from gpu2npu.project.check.stored_tree import StoredTree, TreeAnswers
from gpu2npu.project.check.traced import TracedFile, TracedMigrator
from gpu2npu.project.check.tree_files import TreeFiles
from gpu2npu.project.facts import read_outlines
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.tree.parts import kernels_apart, parts_of
from gpu2npu.python.facts.reading import code_of
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import MigratedFile
from gpu2npu.report.check.result import NativeCode, Part
from gpu2npu.report.diff import unified_diff


def work_out(files: TreeFiles, stored: StoredTree | None) -> TreeAnswers:
    """The answers about a tree with such files, which go to `stored` where there is a place.

    Raises UsageError if a rule file cannot be used.
    """
    with files.session.pool.retained():
        migrator = files.session.migrator(writes=files.choice.diffs)
        looked_at = _Files(files, migrator, _stored(files, migrator))
        looked_at.look()
        later = _later(files, looked_at.entries)
    answers = TreeAnswers(looked_at.entries, _native_code(files), later)
    if stored is not None:
        stored.put(answers, looked_at.names)
    return answers


def _later(files: TreeFiles, entries: Mapping[str, FileAnswer]) -> dict[str, list[int]]:
    """The numbers of the findings of each file that are about code of the program which does not run at once."""
    sources, session = files.wanted, files.session
    part = parts_of(sources)
    concerned = {path: entry.file.findings for path, entry in sorted(entries.items()) if part(path) is Part.PROGRAM}
    if not any(may_be_later(path, each) for path, findings in concerned.items() for each in findings):
        return {}
    program = {path: source for path, source in sources.items() if part(path) is Part.PROGRAM}
    outlines = read_outlines(program, session.pool, session.store, session.digests)
    code = LaterCode(sources, part, outlines)
    found = {
        path: [number for number, each in enumerate(findings) if code.holds(path, each)]
        for path, findings in concerned.items()
    }
    return {path: numbers for path, numbers in found.items() if numbers}


def _native_code(files: TreeFiles) -> NativeCode:
    if not files.native and not _has_kernels(files.session.python):
        return NativeCode()
    sources = {**files.session.python, **files.native}
    places = native_places(sources, with_callers=False)
    return replace(native_code(places, sources), apart=kernels_apart(places, sources))


def _has_kernels(python: Mapping[str, bytes]) -> bool:
    return any(b"__global__" in source or b"CUDAExtension" in source for source in python.values())


def _stored(files: TreeFiles, migrator: Migrator) -> FileAnswers | None:
    if files.session.store is None:
        return None
    settings = files.tree.settings
    shared = shared_facts(migrator, settings.rules, files.choice.diffs, settings.chips, sorted(settings.skip_rules))
    code = {path: code_of(source) for path, source in files.session.python.items()}
    return FileAnswers(files.session.store, shared, code | data_digests(migrator.context.data))


class _Files(Struct, frozen=True):
    """The files of a tree that are looked into, and the answer about each, with its name in the store, as it is
    found."""

    files: TreeFiles
    migrator: Migrator
    stored: FileAnswers | None
    entries: dict[str, FileAnswer] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Find the answer about each file."""
        session, wanted = self.files.session, self.files.wanted
        if self.stored is not None:
            for path, source in wanted.items():
                self.names[path] = self.stored.name(path, source, own_facts(self.migrator, path))
            self.entries.update(self.stored.get(self.names))
        concerned: dict[str, bytes] = {}
        for path, source in wanted.items():
            if path not in self.entries and self.migrator.concerns(source, path):
                concerned[path] = source
            elif path not in self.entries:
                self._add(MigratedFile(path), source)
        session.progress(len(self.entries), len(wanted))
        traced = TracedMigrator(self.migrator)
        try:
            with session.outcomes(traced, concerned, len(self.entries)) as outcomes:
                for file in outcomes:
                    self._add(file, wanted[file.path])
        finally:
            if self.stored is not None:
                self.stored.write()

    def _add(self, file: MigratedFile, source: bytes) -> None:
        """Take the answer about a file, and store it unless it failed: memory or time may have run out."""
        depends = file.depends if isinstance(file, TracedFile) else 0
        entry = FileAnswer(MigratedFile(file.path, changes=file.changes, findings=file.findings, failure=file.failure))
        if self.files.choice.diffs and file.content is not None:
            text = unified_diff(self.files.tree.prefix + file.path, source, file.content)
            entry = replace(entry, diff=text.decode(declared_encoding(source), "replace"))
        self.entries[file.path] = entry
        if self.stored is not None and file.failure is None:
            self.stored.put(self.names[file.path], entry, depends)
