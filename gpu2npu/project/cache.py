"""Answers of earlier checks on disk, so that only what changed is looked at again.

An entry is found by everything that is known before a file is looked at: its content and path, the rules, the release,
this program, and what was gathered from the whole project. It also has the other files that its answer depended on, as
bits, and the name of a snapshot: the list of the project's files with their content at that time. It holds only while
those files have that content. Entries are JSON: a cache folder is never run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gpu2npu import __version__
from gpu2npu.project.atomic import write_atomically
from gpu2npu.project.engine_migrator import EngineMigrator
from gpu2npu.project.traced import TracedFile
from gpu2npu.records import Change, Finding, FindingKind, MigratedFile, Operation, Span
from gpu2npu.rulebook.builtin import builtin_rules_dir

# Another number when entries are written otherwise.
_FORMAT = 2
LARGEST_BYTES = 512 * 1024 * 1024
_PRUNED_TO = 0.8
_BETWEEN_PRUNINGS = 3600.0  # seconds
_FRESH = 24 * 3600.0  # an entry that is used is marked so once a day


def default_cache_dir() -> Path:
    """By the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "gpu2npu"


@dataclass(frozen=True)
class Entry:
    """What is kept of a file: its record, without the content that a migration would write, and its diff."""

    file: MigratedFile
    diff: str = ""


@dataclass(frozen=True)
class Cache:
    """The entries for one project under one configuration. `contents` has the digest of each of its Python files;
    `shared` is what all its answers depend on."""

    folder: Path
    shared: bytes
    contents: Mapping[str, str]
    _changes: dict[str, int] = field(default_factory=dict, compare=False, repr=False)  # see `_changed`

    def get(self, path: str, source: bytes, own: str) -> Entry | None:
        """The entry of a file. `own` is what else its answer depends on. A damaged entry is none."""
        file = self._place(path, source, own)
        try:
            status = file.stat()
            document = json.loads(file.read_bytes())
            if int(document["depends"], 16) & self._changed(document["snapshot"]):
                return None
            entry = Entry(_decoded(path, document), str(document["diff"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        _keep_fresh(file, status)
        return entry

    def put(self, source: bytes, own: str, file: MigratedFile, diff: str) -> None:
        """Keeps an answer. One that failed is not kept: memory or time may have run out. A full disk is no error."""
        if file.failure is not None:
            return
        depends = file.depends if isinstance(file, TracedFile) else 0
        document = {"snapshot": self._snapshot, "depends": f"{depends:x}", "diff": diff, **_encoded(file)}
        with contextlib.suppress(OSError):
            write_atomically(self._place(file.path, source, own), json.dumps(document).encode())

    def _place(self, path: str, source: bytes, own: str) -> Path:
        key = hashlib.sha256(self.shared)
        for part in (path.encode("utf-8", "surrogatepass"), own.encode("utf-8", "surrogatepass"), source):
            key.update(hashlib.sha256(part).digest())
        return self._file(key.hexdigest())

    def _file(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name[2:]}.json"

    @cached_property
    def _snapshot(self) -> str:
        """The name of the snapshot of the project as it is, which is written."""
        document = json.dumps(sorted(self.contents.items())).encode()
        name = hashlib.sha256(document).hexdigest()
        with contextlib.suppress(OSError):
            write_atomically(self._file(name), document)
        return name

    def _changed(self, snapshot: str) -> int:
        """The bits of the files that are no longer what they were in a snapshot.

        Raises:
            OSError, ValueError, TypeError: There is no such snapshot, or it is damaged.
        """
        if snapshot not in self._changes:
            file = self._file(snapshot)
            status = file.stat()
            kept = json.loads(file.read_bytes())
            if [path for path, _ in kept] != sorted(self.contents):
                raise ValueError("entries with another list of files have other names")
            changed = 0
            for place, (path, digest) in enumerate(kept):
                if self.contents[path] != digest:
                    changed |= 1 << place
            _keep_fresh(file, status)
            self._changes[snapshot] = changed
        return self._changes[snapshot]


def _keep_fresh(file: Path, status: os.stat_result) -> None:
    """Mark a file as used, so that pruning leaves it."""
    if time.time() - status.st_mtime > _FRESH:
        with contextlib.suppress(OSError):
            os.utime(file)


def content_digests(sources: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(source).hexdigest() for path, source in sources.items()}


def shared_facts(engine: EngineMigrator, rule_files: Iterable[Path], *settings: object) -> bytes:
    """A digest of what every answer depends on besides the file itself."""
    context = engine.context
    facts = [
        _FORMAT,
        _program(),
        context.version,
        [rule.id for rule in engine.rulebook.rules],
        [hashlib.sha256(file.read_bytes()).hexdigest() for file in rule_files],
        sorted(context.files),
        sorted((member, sorted(paths)) for member, paths in context.own_members.items()),
        sorted(context.taken_names),
        [repr(setting) for setting in settings],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).digest()


def own_facts(engine: EngineMigrator, path: str) -> str:
    """What the answer about one file depends on besides: what codemods, which look at the whole program, do to it."""
    rewrite = engine.plan.rewrites.get(path)
    return repr(rewrite) if rewrite is not None else ""


@cache
def _program() -> list[object]:
    """This program with its data, Python, and the parsers: any of them may change an answer."""
    package = Path(__file__).resolve().parent.parent
    files = [*package.rglob("*.py"), *package.rglob("*.json"), *builtin_rules_dir().glob("*.json")]
    stamps = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return [__version__, list(sys.version_info[:3]), _installed("libcst"), _installed("jedi"), stamps]


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def prune(folder: Path, largest: int = LARGEST_BYTES) -> None:
    """Takes the entries out that were not used for longest, once the folder is larger than `largest` bytes; looks at
    most once an hour. Another run may do the same at the same time."""
    mark = folder / "pruned"
    with contextlib.suppress(OSError):
        if time.time() - mark.stat().st_mtime < _BETWEEN_PRUNINGS:
            return
    with contextlib.suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_bytes(b"")
        entries = sorted(_entries(folder))
        size = sum(entry[1] for entry in entries)
        if size <= largest:
            return
        for _, length, name in entries:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            size -= length
            if size <= largest * _PRUNED_TO:
                return


def _entries(folder: Path) -> Iterable[tuple[float, int, str]]:
    """When each entry was last used, its size and path."""
    for part in folder.iterdir():
        if len(part.name) == 2 and part.is_dir():
            for entry in os.scandir(part):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime, status.st_size, entry.path


def _encoded(file: MigratedFile) -> dict[str, Any]:
    return {
        "changes": [
            [*_span(change.span), change.rule, change.operation.value, change.message, change.before, change.after]
            for change in file.changes
        ],
        "findings": [
            [*_span(finding.span), finding.rule, finding.kind.value, finding.api, finding.message]
            for finding in file.findings
        ],
    }


def _span(span: Span) -> list[int]:
    return [span.cell, span.start_line, span.start_column, span.end_line, span.end_column]


def _decoded(path: str, document: Mapping[str, Any]) -> MigratedFile:
    changes = tuple(
        Change(_decoded_span(one), one[5], Operation(one[6]), one[7], one[8], one[9]) for one in document["changes"]
    )
    findings = tuple(
        Finding(_decoded_span(one), one[5], FindingKind(one[6]), one[7], one[8]) for one in document["findings"]
    )
    return MigratedFile(path, changes=changes, findings=findings)


def _decoded_span(one: list[Any]) -> Span:
    return Span(int(one[1]), int(one[2]), int(one[3]), int(one[4]), cell=int(one[0]))
