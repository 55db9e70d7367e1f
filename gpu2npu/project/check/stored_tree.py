"""The answers about a whole source tree, kept on disk: where no file of it changed, nothing else need be known.

So a check of what was checked before needs neither the engine nor the codemods and analyses, which take longer to
import than all that it does. The record of a tree has the names of its files' entries in the cache (see cache.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpu2npu.project.cache.answers import FileAnswer, content_digests, read_entry
from gpu2npu.project.cache.folder import entry_file, keep_fresh, program_facts
from gpu2npu.project.check.tree_files import TreeFiles
from gpu2npu.project.tree.atomic import write_atomically
from gpu2npu.records import MigratedFile
from gpu2npu.report.check.result import NativeCode

# Another number when records are written otherwise.
_FORMAT = 1


@dataclass(frozen=True)
class TreeAnswers:
    """The answers about a tree: the entry of each file that is looked into, by path, and its own C++ and CUDA."""

    entries: Mapping[str, FileAnswer]
    native: NativeCode


@dataclass(frozen=True)
class StoredTree:
    """The place of the answers about a tree as it is now, under one configuration."""

    folder: Path
    name: str

    @classmethod
    def of(cls, folder: Path, files: TreeFiles) -> StoredTree:
        """The place in a cache folder for the answers about such files. A rule file must be there."""
        tree, chosen = files.tree, files.tree.settings
        facts = [
            _FORMAT,
            program_facts(),
            chosen.release,
            [hashlib.sha256(file.read_bytes()).hexdigest() for file in chosen.rules],
            [chosen.only_rules, chosen.skip_rules, chosen.chips, files.choice.diffs],
            repr(replace(chosen.codemods, excluded=frozenset())),
            [tree.location.root.name, tree.prefix],
            sorted(files.session.excluded),
            [
                sorted(digests.items())
                for digests in (files.session.digests, content_digests(files.others), content_digests(files.native))
            ],
        ]
        return cls(folder, hashlib.sha256(json.dumps(facts).encode()).hexdigest())

    def get(self) -> TreeAnswers | None:
        """Return what is kept; None where anything of it is missing or damaged."""
        file = entry_file(self.folder, self.name)
        try:
            status = file.stat()
            document = json.loads(file.read_bytes())
            native = NativeCode(**{kind: int(number) for kind, number in document["native"].items()})
            names = {path: str(name) for path, name in document["files"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        entries: dict[str, FileAnswer] = {}
        for path, name in names.items():
            entry = read_entry(self.folder, name, path) if name else FileAnswer(MigratedFile(path))
            if entry is None:
                return None
            entries[path] = entry
        keep_fresh(file, status)
        return TreeAnswers(entries, native)

    def put(self, answers: TreeAnswers, names: Mapping[str, str]) -> None:
        """Keep answers, with the name of each file's entry. They are not kept where one failed: memory or time may have
        run out. A full disk is not an error."""
        if any(entry.file.failure is not None for entry in answers.entries.values()):
            return
        filled = {path: names[path] if _says_anything(entry) else "" for path, entry in answers.entries.items()}
        document = {"files": filled, "native": asdict(answers.native)}
        with contextlib.suppress(OSError):
            write_atomically(entry_file(self.folder, self.name), json.dumps(document).encode())


def _says_anything(entry: FileAnswer) -> bool:
    return bool(entry.diff or entry.file.changes or entry.file.findings)
