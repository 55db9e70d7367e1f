"""The answers about a whole source tree, stored: where no file of it changed, nothing else need be known.

So a check of what was checked before needs neither the engine nor the codemods and analyses, which take longer to
import than all that it does. The record of a tree has the names of the answers about its files.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.project.cache.answers import FileAnswer, stored_answers
from gpu2npu.project.cache.store import Store, content_digests, file_digests, name_of
from gpu2npu.project.check.choice import TreeFiles
from gpu2npu.records import MigratedFile
from gpu2npu.report.check.result import NativeCode


class TreeAnswers(Struct, frozen=True):
    """The answers about a tree: that of each file that is looked into, by path, its own C++ and CUDA, and the numbers
    of the findings of a file that are about code which does not run at once."""

    entries: Mapping[str, FileAnswer]
    native: NativeCode
    later: Mapping[str, list[int]]


class _TreeRecord(Struct, frozen=True):
    """`files` has the name of the answer about each file, "" where it says nothing."""

    files: dict[str, str]
    native: NativeCode
    later: dict[str, list[int]]


class StoredTree(Struct, frozen=True):
    """The place of the answers about a tree as it is now, under one configuration."""

    store: Store
    name: str

    @classmethod
    def of(cls, store: Store, files: TreeFiles) -> StoredTree:
        """The place in a store for the answers about such files. A rule file must be there."""
        tree, chosen = files.tree, files.tree.settings
        name = name_of(
            chosen.release,
            file_digests(chosen.rules),
            [chosen.only_rules, chosen.skip_rules, chosen.chips, files.choice.diffs],
            repr(replace(chosen.codemods, excluded=frozenset())),
            [tree.location.root.name, tree.prefix],
            sorted(files.session.excluded),
            [
                sorted(digests.items())
                for digests in (
                    files.session.digests,
                    *map(content_digests, (files.others, files.native, files.session.build_files)),
                )
            ],
        )
        return cls(store, name)

    def get(self) -> TreeAnswers | None:
        """Return what is stored; None where anything of it is missing or damaged."""
        tree = self.store.find(self.name, _TreeRecord)
        found = stored_answers(self.store, {path: name for path, name in tree.files.items() if name}) if tree else None
        if tree is None or found is None:
            return None
        return TreeAnswers(
            {path: found.get(path) or FileAnswer(MigratedFile(path)) for path in tree.files}, tree.native, tree.later
        )

    def put(self, answers: TreeAnswers, names: Mapping[str, str]) -> None:
        """Store the names of each file's answer, unless one failed: memory or time may have run out."""
        if all(entry.file.failure is None for entry in answers.entries.values()):
            filled = {path: names[path] if _has_reports(entry) else "" for path, entry in answers.entries.items()}
            self.store.put({self.name: _TreeRecord(filled, answers.native, dict(answers.later))})


def _has_reports(entry: FileAnswer) -> bool:
    return bool(entry.diff or entry.file.changes or entry.file.findings)
