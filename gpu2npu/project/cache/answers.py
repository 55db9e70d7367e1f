"""Answers of earlier checks on disk, so that only what changed is looked at again.

An entry is found by everything that is known before a file is looked at: its content and path, the rules, the release,
this program, and what was collected from the whole project. It also has the other files that its answer depended on, as
bits, and the name of a snapshot: the list of the project's files with their content at that time. It holds only while
those files have that content. Entries are JSON: a cache folder is never run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu2npu.project.cache.folder import entry_file, keep_fresh, program_facts
from gpu2npu.project.cache.records import decoded_change, decoded_finding, encoded_change, encoded_finding
from gpu2npu.project.tree.atomic import write_atomically
from gpu2npu.records import MigratedFile

if TYPE_CHECKING:
    from gpu2npu.project.migrator import Migrator

# Another number when entries are written otherwise.
_FORMAT = 4


@dataclass(frozen=True)
class FileAnswer:
    """The kept answer for a file: its record, without the content that a migration would write, and its diff."""

    file: MigratedFile
    diff: str = ""


def read_entry(
    folder: Path, name: str, path: str, changed: Callable[[str], int] = lambda snapshot: 0
) -> FileAnswer | None:
    """The entry of a name, of the file at a path; None where it is missing or damaged, or where it depends on one of
    the files that are `changed`, as bits, since the snapshot of a name."""
    file = entry_file(folder, name)
    try:
        status = file.stat()
        document = json.loads(file.read_bytes())
        if int(document["depends"], 16) & changed(document["snapshot"]):
            return None
        changes = tuple(decoded_change(one) for one in document["changes"])
        findings = tuple(decoded_finding(one) for one in document["findings"])
        entry = FileAnswer(MigratedFile(path, changes=changes, findings=findings), str(document["diff"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    keep_fresh(file, status)
    return entry


@dataclass(frozen=True)
class Cache:
    """The entries for one project under one configuration. `contents` has the digest of each of its Python files;
    `shared` is what all its answers depend on."""

    folder: Path
    shared: bytes
    contents: Mapping[str, str]
    _changes: dict[str, int] = field(default_factory=dict, compare=False, repr=False)  # see `_changed`

    def name(self, path: str, source: bytes, own: str) -> str:
        """The name of the entry of a file. `own` is what else its answer depends on."""
        key = hashlib.sha256(self.shared)
        for part in (path.encode("utf-8", "surrogatepass"), own.encode("utf-8", "surrogatepass"), source):
            key.update(hashlib.sha256(part).digest())
        return key.hexdigest()

    def get(self, name: str, path: str) -> FileAnswer | None:
        """The entry of a name, which is of the file at a path. A damaged entry is none."""
        return read_entry(self.folder, name, path, self._changed)

    def put(self, name: str, entry: FileAnswer, depends: int) -> None:
        """Keep an answer that depends on other files, given as bits. A full disk is not an error."""
        document: dict[str, Any] = {"snapshot": self._snapshot, "depends": f"{depends:x}", "diff": entry.diff}
        document["changes"] = [encoded_change(change) for change in entry.file.changes]
        document["findings"] = [encoded_finding(finding) for finding in entry.file.findings]
        with contextlib.suppress(OSError):
            write_atomically(entry_file(self.folder, name), json.dumps(document).encode())

    @cached_property
    def _snapshot(self) -> str:
        """The name of the snapshot of the project as it is, which is written."""
        document = json.dumps(sorted(self.contents.items())).encode()
        name = hashlib.sha256(document).hexdigest()
        with contextlib.suppress(OSError):
            write_atomically(entry_file(self.folder, name), document)
        return name

    def _changed(self, snapshot: str) -> int:
        """The bits of the files that are no longer what they were in a snapshot.

        Raises:
            OSError, ValueError, TypeError: There is no such snapshot, or it is damaged.
        """
        if snapshot not in self._changes:
            file = entry_file(self.folder, snapshot)
            status = file.stat()
            retained = json.loads(file.read_bytes())
            if [path for path, _ in retained] != sorted(self.contents):
                raise ValueError("entries with another list of files have other names")
            changed = 0
            for place, (path, digest) in enumerate(retained):
                if self.contents[path] != digest:
                    changed |= 1 << place
            keep_fresh(file, status)
            self._changes[snapshot] = changed
        return self._changes[snapshot]


def content_digests(sources: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(source).hexdigest() for path, source in sources.items()}


def shared_facts(migrator: Migrator, rule_files: Iterable[Path], *settings: object) -> bytes:
    """A digest of what every answer depends on besides the file itself."""
    context = migrator.context
    facts = [
        _FORMAT,
        program_facts(),
        context.version,
        [rule.id for rule in migrator.rulebook.rules],
        [hashlib.sha256(file.read_bytes()).hexdigest() for file in rule_files],
        sorted(context.files),
        context.folders,
        context.project.has_library,
        sorted((member, sorted(paths)) for member, paths in context.own_members.items()),
        context.uses_device,
        context.has_plugin,
        sorted((name.decode("latin-1"), sorted(each)) for name, each in context.other_names.items()),
        sorted(context.imported) if context.imported is not None else None,
        [repr(setting) for setting in settings],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).digest()


def own_facts(migrator: Migrator, path: str) -> str:
    """Return what else the answer about a file depends on: what codemods, which see the whole program, do to it."""
    rewrite = migrator.plan.rewrites.get(path)
    return repr(rewrite) if rewrite is not None else ""
