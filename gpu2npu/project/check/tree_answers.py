"""The answers about a source tree, worked out: each file from the store, or from the engine and into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from msgspec import Struct, field
from msgspec.structs import replace

from gpu2npu.analysis.cuda_cpp.sources import native_code, native_places
from gpu2npu.analysis.file_analysis import FileQuestion
from gpu2npu.engine.imports import joined_files
from gpu2npu.project.cache.answers import NAMES, FileAnswer, FileAnswers, data_digests, name_bit, shared_facts
from gpu2npu.project.cache.store import StoredFacts
from gpu2npu.project.check.choice import TreeFiles
from gpu2npu.project.check.later import LaterCode, may_be_later
from gpu2npu.project.check.stored_tree import StoredTree, TreeAnswers
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.tree.parts import kernels_apart, parts_of
from gpu2npu.python.facts.reading import code_of
from gpu2npu.python.project.project import EVERY_FILE
from gpu2npu.python.text.source import declared_encoding
from gpu2npu.records import MigratedFile
from gpu2npu.report.check.result import NativeCode, Part
from gpu2npu.report.diff import unified_diff


def work_out(files: TreeFiles, stored: StoredTree | None) -> TreeAnswers:
    """The answers about a tree with such files, which go to `stored` where there is a place.

    Raises UsageError if a rule file cannot be used.
    """
    with files.session.pool.retained():
        migrator = files.session.migrator({FileQuestion.TORCH_APIS}, writes=files.choice.diffs)  # it gives no advice
        looked_at = _Files(files, migrator, _stored(files, migrator))
        looked_at.look()
        later = _later(files, looked_at.entries)
    answers = TreeAnswers(looked_at.entries, _native_code(files), later)
    if stored is not None:
        stored.put(answers, looked_at.names)
    return answers


def _later(files: TreeFiles, entries: Mapping[str, FileAnswer]) -> dict[str, list[int]]:
    """The numbers of the findings of each file that are about code of the program which does not run at once."""
    sources = files.wanted
    part = parts_of(sources)
    concerned = {path: entry.file.findings for path, entry in sorted(entries.items()) if part(path) is Part.PROGRAM}
    if not any(may_be_later(path, each) for path, findings in concerned.items() for each in findings):
        return {}
    code = LaterCode(sources, part)
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
    project = migrator.context.project
    contents = code | data_digests(migrator.context.data)
    return FileAnswers(StoredFacts(files.session.store, files.session.digests), shared, contents, project)


def _own_facts(migrator: Migrator, path: str) -> str:
    """Return what else the answer about a file depends on: what codemods, which see the whole program, do to it, and
    which rules are for it by imports that join to it."""
    project = migrator.context.project
    nearby = dict.fromkeys(where.nearby for where, _ in migrator.rulebook.limited if where.nearby)
    joined = [number for number, wanted in enumerate(nearby) if path in joined_files(project, wanted)]
    return repr((migrator.plan.rewrites.get(path), joined))


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
                self.names[path] = self.stored.name(path, source, _own_facts(self.migrator, path))
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


class TracedFile(MigratedFile, frozen=True):
    """`depends` are other files of the project: while they stay as they are, so does the rest of the record. It has one
    bit for each file, in the order of their paths, and behind these bits for names (`name_bit`): that the same files
    have each; -1 is every file."""

    depends: int = 0


class TracedMigrator:
    """Does what a migrator does. Picklable, so that workers can have it."""

    def __init__(self, migrator: Migrator) -> None:
        self._migrator = migrator
        self._dependencies: Dependencies | None = None  # this process's, when needed

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        file, project = self._migrator(source, path), self._migrator.context.project
        if self._dependencies is None:
            self._dependencies = Dependencies(
                sorted({*project.files, *project.data}), (project.consulted,), project.grown
            )
        record = {name: getattr(file, name) for name in MigratedFile.__struct_fields__}
        return TracedFile(**record, depends=self._dependencies.of(path))


class Dependencies:
    """The files that each file leads to, by graphs of the files that each has read about; they grow with each file.

    Sets of files are bits, in the order of `paths`. What a file leads to is kept until an edge leads out of it: most
    files of a project lead to each other, and their new edges stay among them. `grown` gives the files whose edges may
    have grown since the last call; without it, all edges are looked at.
    """

    def __init__(
        self,
        paths: Sequence[str],
        edges: Sequence[Mapping[str, Set[str]]],
        grown: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self._edges = edges
        self._grown = grown
        self._bits = {path: 1 << place for place, path in enumerate(paths)}  # and of files that read about others only
        self._count = len(paths)
        self._names = (1 << NAMES) - 1 << self._count
        self._numbers: list[dict[str, int]] = [{} for _ in edges]  # of the edges of each file when last looked at
        self._direct: dict[int, int] = {}  # what the file of a bit read about
        self._found: dict[int, int] = {}  # what it leads to, itself included
        self._known = 0  # the bits of the files in `_found`

    def of(self, path: str) -> int:
        """The bits of the files and names that `path` leads to, without itself; -1 if EVERY_FILE is among them.

        An answer may be kept in memory from an earlier file, without reading again: so what *those* read counts too.
        """
        self._look_again()
        own = self._bit(path)
        found, looked_at = own, self._names
        while found != -1 and (left := found & ~looked_at):
            left = left & self._known or left
            first = left & -left
            leads_to = self._found.get(first)
            looked_at |= first if leads_to is None else first | leads_to
            found |= self._direct.get(first, 0) if leads_to is None else leads_to
        self._found[own] = found
        self._known |= own
        return found if found == -1 else found & ~own

    def _look_again(self) -> None:
        """Take up new edges, and forget what was found and does not hold what they lead to."""
        grown = self._grown() if self._grown is not None else None
        for graph, numbers in zip(self._edges, self._numbers, strict=True):
            for path in graph if grown is None else grown:
                others = graph.get(path, frozenset())
                if numbers.get(path, 0) == len(others):
                    continue
                numbers[path] = len(others)
                bit, direct = self._bit(path), self._bits_of(others)
                self._direct[bit] = self._direct.get(bit, 0) | direct
                for each in [each for each, found in self._found.items() if found & bit and direct & ~found]:
                    del self._found[each]
                    self._known ^= each

    def _bit(self, path: str) -> int:
        """The bit of a file; a new one for a file such as a notebook, which no other leads to."""
        return self._bits.setdefault(path, 1 << len(self._bits) + NAMES)

    def _bits_of(self, paths: Set[str]) -> int:
        bits = 0
        for path in paths:
            is_file = path in self._bits
            bits |= self._bits[path] if is_file else -1 if path == EVERY_FILE else name_bit(path) << self._count
        return bits
