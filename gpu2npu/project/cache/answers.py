"""Answers about files, stored so that only what changed is looked at again.

An answer is found by everything that is known before a file is looked at: its content and path, the rules, the release,
this program, and what was collected from the whole project. It also has the other files that it depended on, as bits,
and the name of a snapshot: the project's files with their content at that time. It holds only while those files have
that content. If it depended on which files have a name, it holds until a file that changed has, or had, the name, or
other imports than before.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu.project.cache.store import Store, StoredFacts, file_digests, name_of
from gpu2npu.python.project.project import named
from gpu2npu.records import Change, Finding, MigratedFile

if TYPE_CHECKING:
    from gpu2npu.project.migrator import Migrator
    from gpu2npu.python.facts.record import FileFacts
    from gpu2npu.python.facts.values import DataValues
    from gpu2npu.python.project.project import Project

NAMES = 8192  # bits for the names that answers depend on, of which several share one
_EVERY_NAME = (1 << NAMES) - 1
_BETWEEN_WRITES = 2.0  # seconds: answers that a killed run loses


class FileAnswer(Struct, frozen=True):
    """The answer about a file: its record, without the content that a migration would write, and its diff."""

    file: MigratedFile
    diff: str = ""


class _Stored(Struct, frozen=True):
    """An answer as it is stored. `depends` are hexadecimal digits."""

    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    diff: str
    snapshot: str
    depends: str

    def of(self, path: str) -> FileAnswer:
        return FileAnswer(MigratedFile(path, changes=self.changes, findings=self.findings), self.diff)


def stored_answers(store: Store, names: Mapping[str, str]) -> dict[str, FileAnswer] | None:
    """The answers of some names, by path, which are known to hold; None if one is missing."""
    found = store.get(names.values(), _Stored)
    if len(found) < len(set(names.values())):
        return None
    return {path: found[name].of(path) for path, name in names.items()}


class _Content(Struct, frozen=True, array_like=True):
    """A file as answers depend on it: a digest of its code, and for a Python file that of its bytes."""

    code: str
    bytes: str = ""


class FileAnswers:
    """The answers about one project's files under one configuration. `contents` has a digest of the code of each of
    its Python files and of what programs read of others; `shared` is what all its answers depend on."""

    def __init__(self, facts: StoredFacts, shared: bytes, contents: Mapping[str, str], project: Project) -> None:
        self._store, self._shared, self._project = facts.store, shared, project
        self._contents = {path: _Content(contents[path], facts.contents.get(path, "")) for path in sorted(contents)}
        self._snapshot = name_of("snapshot", {path: (each.code, each.bytes) for path, each in self._contents.items()})
        self._unwritten: dict[str, object] = {self._snapshot: self._contents}  # goes with the first answers
        self._waiting: dict[str, object] = {}
        self._written = time.monotonic()

    def name(self, path: str, source: bytes, own: str) -> str:
        """The name of the answer about a file. `own` is what else it depends on."""
        key = hashlib.sha256(self._shared)
        for part in (path.encode("utf-8", "surrogatepass"), own.encode("utf-8", "surrogatepass"), source):
            key.update(hashlib.sha256(part).digest())
        return key.hexdigest()

    def get(self, names: Mapping[str, str]) -> dict[str, FileAnswer]:
        """The answers of some names that hold, by path."""
        found = self._store.get(names.values(), _Stored)
        snapshots = self._store.get({each.snapshot for each in found.values()}, dict[str, _Content])
        changed = {name: self._changed(snapshot) for name, snapshot in snapshots.items()}
        return {
            path: found[name].of(path)
            for path, name in names.items()
            if name in found and _holds(found[name], changed.get(found[name].snapshot, -1))
        }

    def put(self, name: str, answer: FileAnswer, depends: int) -> None:
        """Store an answer that depends on other files, given as bits, soon."""
        file = answer.file
        self._waiting[name] = _Stored(file.changes, file.findings, answer.diff, self._snapshot, f"{depends:x}")
        if time.monotonic() - self._written > _BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Store the answers that wait for it."""
        if self._waiting:
            self._store.put({**self._unwritten, **self._waiting})
            self._unwritten, self._waiting = {}, {}
        self._written = time.monotonic()

    def _changed(self, snapshot: Mapping[str, _Content]) -> int:
        """The bits of the files that are no longer what they were in a snapshot of as many files, and of the names that
        other files have than then."""
        if list(snapshot) != list(self._contents):
            return -1
        contents = enumerate(zip(snapshot.items(), self._contents.values(), strict=True))
        changed = {path: place for place, ((path, before), now) in contents if before.code != now.code}
        old = StoredFacts(self._store, {path: snapshot[path].bytes for path in changed}).get(changed)
        names = 0
        for path in changed:
            before = old[path][1] if path in old else None
            now = self._project.facts(path, path) if before is not None else None
            names |= _names_changed(before, now) if before is not None and now is not None else _EVERY_NAME
        return sum(1 << place for place in changed.values()) | names << len(self._contents)


def name_bit(name: str) -> int:
    """The bit of a name that an answer depends on, as `named` writes it, or of IMPORTS."""
    return 1 << zlib.crc32(name.encode("utf-8", "surrogatepass")) % NAMES


def _names_changed(before: FileFacts, now: FileFacts) -> int:
    """The bits of the names that only one of two texts of a file has; of all names if its imports are others."""
    if (before.imports, before.stars) != (now.imports, now.stars):
        return _EVERY_NAME
    bits = 0
    methods = {f"def {name}" for name, _ in before.methods.items() ^ now.methods.items()}
    for name in (before.names | before.texts) ^ (now.names | now.texts) | methods:
        bits |= name_bit(named(name))
    return bits


def _holds(answer: _Stored, changed: int) -> bool:
    try:
        return int(answer.depends, 16) & changed == 0
    except ValueError:
        return False


def shared_facts(migrator: Migrator, rule_files: Iterable[Path], *settings: object) -> bytes:
    """A digest of what every answer depends on besides the file itself."""
    context = migrator.context
    name = name_of(
        context.version,
        [rule.id for rule in migrator.rulebook.rules],
        file_digests(rule_files),
        sorted(context.files),
        context.folders,
        context.project.has_library,
        sorted((member, sorted(paths)) for member, paths in context.project_members.items()),
        context.uses_device,
        context.has_plugin,
        sorted((name.decode("latin-1"), sorted(each)) for name, each in context.other_names.items()),
        sorted(context.imported) if context.imported is not None else None,
        sorted(context.data),
        [repr(setting) for setting in settings],
    )
    return name.encode()


def data_digests(data: Mapping[str, DataValues]) -> dict[str, str]:
    """A digest of the values of each file of data."""
    return {path: hashlib.sha256(repr(values).encode()).hexdigest() for path, values in data.items()}
