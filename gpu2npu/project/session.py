"""A run over one project: its settings, files, rules and facts, and the loop over its files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, closing
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpu2npu.analysis.cuda_cpp.native_files import is_native
from gpu2npu.formats.kinds import kind_of, needs_head
from gpu2npu.project.cache.store import Store, StoredFacts, content_digests, file_digests, name_of
from gpu2npu.project.facts import read_all_facts
from gpu2npu.project.installation import BUILD_FILES
from gpu2npu.project.location import Location
from gpu2npu.project.pool import Migrate, Pool, migrate_files
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import discover
from gpu2npu.project.tree.mirror import read_files, read_head
from gpu2npu.project.worker_processes import available_cpus
from gpu2npu.python.facts.reading import code_of
from gpu2npu.records import MigratedFile, PathNote
from gpu2npu.support.chips import DEFAULT_CHIP

if TYPE_CHECKING:
    from gpu2npu.analysis.file_analysis import FileQuestion
    from gpu2npu.project.migrator import Migrator
    from gpu2npu.rulebook.rule import Rulebook


# The files that list what a project fetches or installs.
_INSTALLS = re.compile(r"\.gitmodules|requirements.*\.txt|.*environment.*\.ya?ml|conda.*\.ya?ml", re.IGNORECASE)


class Session:
    """The project of one run, read.

    `tree` has its paths, `python` the bytes of all its Python files, for other files may depend on those that are
    `excluded` too. `notes` are about what was not read. `store` has answers of earlier runs. Reading raises UsageError
    where the folder cannot be read.
    """

    def __init__(
        self,
        location: Location,
        settings: Settings,
        progress: Progress = no_progress,
        *,
        excludes: Callable[[str], bool] | None = None,
        store: Store | None = None,
    ) -> None:
        self.location, self.settings, self.progress, self.store = location, settings, progress, store
        self.excludes = excludes or settings.excludes
        self.pool = Pool(settings.jobs or available_cpus(), seconds=settings.file_timeout)
        self.tree = discover(location.root, location.only)
        self.notes: set[PathNote] = set(self.tree.notes)
        self.python = self.read(self.tree.python, with_excluded=True)
        self.excluded = frozenset(path for path in self.python if self.excludes(path))

    @property
    def wanted(self) -> dict[str, bytes]:
        """The Python files that are looked into."""
        return {path: source for path, source in self.python.items() if path not in self.excluded}

    def others(self, concerns: Callable[[bytes, str], bool] = lambda source, path: True) -> dict[str, bytes]:
        """The files of other kinds that are looked into, of those that a function of content and path is true of.
        `looked_into` is then the number of all files that are."""
        found: dict[str, bytes] = {}
        self.looked_into = len(self.wanted)
        for path in self.tree.others:
            head = read_head(self.location.root / path) if needs_head(path) else b""
            kind = kind_of(path, head)
            if kind is not None and kind.value not in self.settings.skip_kinds:
                read = self.read([path])
                self.looked_into += len(read)
                found.update((path, source) for path, source in read.items() if concerns(source, path))
        return found

    @cached_property
    def build_files(self) -> dict[str, bytes]:
        """The files that define how the project is built and installed."""
        listed = (path for path in (*self.tree.python, *self.tree.others) if posixpath.basename(path) in BUILD_FILES)
        return self.read(listed, with_excluded=True)

    def native(self) -> dict[str, bytes]:
        """The files that may hold C++ or CUDA code."""
        return self.read(path for path in self.tree.others if is_native(path))

    def read(self, paths: Iterable[str], *, with_excluded: bool = False) -> dict[str, bytes]:
        """The bytes of files of the project, of excluded ones only if that is said; what cannot be read is noted."""
        found, unread = read_files(
            self.location.root, (path for path in paths if with_excluded or not self.excludes(path))
        )
        self.notes.update(unread)
        return found

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each Python file, excluded ones too."""
        return content_digests(self.python)

    def migrator(self, questions: Set[FileQuestion] | None = None, *, writes: bool = True) -> Migrator:
        """Load the rules, the plan of the codemods, and the analyses that answer some questions, by default all.
        `writes` means that the new text of files is wanted.

        Raises UsageError if a rule file cannot be used, or a codemod cannot do what it was asked for.
        """
        # Importing the engine takes longer than all that comes before it.
        from gpu2npu.analysis.file_analysis import FileQuestion
        from gpu2npu.engine.table import rule_table
        from gpu2npu.project.installation import installation
        from gpu2npu.project.migrator import Migrator
        from gpu2npu.project.planning import PartPlanning, StoredPlans

        def read(rulebook: Rulebook, version: str) -> Mapping[str, bytes]:
            rule_table(rulebook, version)  # before workers start, which then have it
            if writes:
                import gpu2npu.analysis.affinity.advice
                import gpu2npu.python.text.writing  # noqa: F401  # and LibCST
            self.pool.share(rulebook)
            return read_all_facts(self.python, self.pool, StoredFacts(self.store, self.digests) if self.store else None)

        installed = installation(self.python, self.build_files)
        others = self.others(lambda source, path: b"cuda" in source or b"nccl" in source)
        built = self.read(path for path in self.tree.others if _INSTALLS.fullmatch(posixpath.basename(path)))
        return Migrator.load(
            self.settings.choice,
            self.settings.release,
            self.location.root,
            self.python,
            replace(self.settings.codemods, excluded=self.excluded, installed=installed),
            PartPlanning(self.pool, self.progress, StoredPlans(self.store, self.digests) if self.store else None),
            frozenset(FileQuestion) if questions is None else questions,
            self.settings.chips or (DEFAULT_CHIP,),
            others,
            read,
            writes,
            built,
            partial(self._stored_readers, {**others, **built}),
        )

    def _stored_readers(self, others: Mapping[str, bytes], read: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """The files that read a device from others, as an earlier run found them while no code and no other file was
        different; else those that `read` gives."""
        if self.store is None:
            return read()
        choice = self.settings.choice
        code = {path: code_of(source) for path, source in self.python.items()}
        contents = code | content_digests({**self.build_files, **others})
        rules = [file_digests(choice.files), choice.only, choice.skip]
        name = name_of("readers", self.settings.release, rules, self.location.root.name, sorted(contents.items()))
        found = self.store.find(name, tuple[str, ...])
        if found is None:
            found = read()
            self.store.put({name: found})
        return found

    def outcomes(
        self, migrate: Migrate, sources: Mapping[str, bytes], others: int
    ) -> AbstractContextManager[Iterator[MigratedFile]]:
        """Within it, the outcomes of files as they are done: see migrate_files. Behind it no worker is left."""
        return closing(migrate_files(migrate, sources, self.pool, self.progress, others=others))
