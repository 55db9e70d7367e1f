"""Answers of earlier runs in one SQLite file, which may be thrown away: each record under a name.

A name is the digest of all that its record depends on, so no record is ever out of date. Records are MessagePack, which
holds values only: whatever somebody writes into the file, nothing of it is run. The facts of Python files are kept by
the content of each: a file that did not change is not parsed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from gpu2npu import __version__
from gpu2npu.builtin_rules import builtin_rules_dir
from gpu2npu.python.facts.record import FileFacts, decoded

if TYPE_CHECKING:
    import sqlite3

_LARGEST_BYTES = 512 * 1024 * 1024
_PRUNED_TO = 0.8
_PATIENCE = 2.0  # seconds to wait, once in a run, for another process that writes
_FRESH = 24 * 3600.0  # seconds: a record that is used is marked so once a day
# In the messages of SQLite about a file that is damaged, or that something else has written.
_DAMAGED = ("malformed", "not a database", "unsupported file format", "no such column", "has no column")
_TABLE = "CREATE TABLE IF NOT EXISTS records (name TEXT PRIMARY KEY, used REAL NOT NULL, content BLOB NOT NULL)"
# Whatever types the values of a row have.
_READ = "SELECT name, CAST(used AS REAL), CAST(content AS BLOB) FROM records WHERE name = ?"
# The oldest records whose sizes, with those of all that are older, are more than a number of bytes too many.
_PRUNE = """
DELETE FROM records WHERE name IN (
    SELECT name FROM (
        SELECT name, used, sum(length(content)) OVER (ORDER BY used DESC, name) AS newer FROM records
    ) WHERE newer > ?
)
"""

_Record = TypeVar("_Record")


def default_cache_dir() -> Path | None:
    """By the XDG base directory specification; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "gpu2npu"
    except RuntimeError:  # no $HOME, and no entry for the user in the system's database
        return None


def name_of(*facts: object) -> str:
    """Return the name of what depends on this program and some facts, which have to be JSON."""
    return hashlib.sha256(json.dumps([program_facts(), *facts]).encode()).hexdigest()


def content_digests(sources: Mapping[str, bytes]) -> dict[str, str]:
    """The digests of the contents of files, by path."""
    return {path: hashlib.sha256(source).hexdigest() for path, source in sources.items()}


def file_digests(files: Iterable[Path]) -> list[str]:
    """The digests of files that are there."""
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


@dataclass
class Store:
    """The file in a folder, which is made when something is stored. Once it is `largest` bytes long, the records that
    were not used for longest are deleted.

    A file that is damaged is deleted; one that cannot be read or written has no records, and stays. Once another
    process has kept it locked for too long, the store does nothing more. Without the module sqlite3, which some builds
    of Python lack, it never does anything. Each call has a connection of its own, so that threads and forked processes
    may use a store.
    """

    folder: Path
    largest: int = _LARGEST_BYTES
    _is_off: bool = field(default=False, init=False)

    @property
    def file(self) -> Path:
        return self.folder / "answers.sqlite"

    def get(self, names: Iterable[str], kind: type[_Record]) -> dict[str, _Record]:
        """The records under some names, without those that are missing, damaged or not of the kind."""
        rows: list[tuple[str, float, bytes]] = []

        def read(connection: sqlite3.Connection) -> None:
            for name in names:
                rows.extend(connection.execute(_READ, (name,)))
            now = time.time()
            aged = [(now, name) for name, used, _ in rows if now - (used or 0.0) > _FRESH]
            if aged:
                connection.executemany("UPDATE records SET used = ? WHERE name = ?", aged)

        with contextlib.suppress(OSError):  # one of permissions, or of a name that is too long
            if self.file.exists():
                self._do(read)
        return dict(_decoded(rows, kind))

    def find(self, name: str, kind: type[_Record]) -> _Record | None:
        """The record under a name; None where it is missing, damaged or not of the kind."""
        return self.get([name], kind).get(name)

    def put(self, records: Mapping[str, object]) -> None:
        """Store records. Records with text that is not Unicode, such as the name of a file in bytes, are left out."""
        now = time.time()
        rows = [(name, now, content) for name, content in _encoded(records)]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR REPLACE INTO records (name, used, content) VALUES (?, ?, ?)", rows)
            pages, free, size = (
                connection.execute(f"PRAGMA {number}").fetchone()[0]
                for number in ("page_count", "freelist_count", "page_size")
            )
            if (pages - free) * size > self.largest:
                connection.execute(_PRUNE, (self.largest * _PRUNED_TO,))

        if rows:
            with contextlib.suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
            self._do(write)

    def _do(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do something in one transaction, or nothing."""
        if self._is_off:
            return
        try:
            import sqlite3
        except ImportError:
            return
        try:
            with contextlib.closing(sqlite3.connect(self.file, timeout=_PATIENCE)) as connection, connection:
                connection.execute(_TABLE)
                work(connection)
        except sqlite3.Error as error:
            self._is_off = "locked" in str(error)
            if any(words in str(error) for words in _DAMAGED):
                for file in (self.file, self.file.with_name(f"{self.file.name}-journal")):
                    with contextlib.suppress(OSError):
                        file.unlink()


def _encoded(records: Mapping[str, object]) -> Iterator[tuple[str, bytes]]:
    for name, record in records.items():
        with contextlib.suppress(UnicodeEncodeError):
            yield name, msgspec.msgpack.encode(record)


def _decoded(rows: Iterable[tuple[str, float, bytes]], kind: type[_Record]) -> Iterator[tuple[str, _Record]]:
    decoder = msgspec.msgpack.Decoder(kind)
    for name, _, content in rows:
        with contextlib.suppress(msgspec.DecodeError, TypeError, RecursionError):
            yield name, decoder.decode(content)


_RUNNING = ("emulator", "verify", "forecast")  # the folders of what runs programs, which no stored answer is of


@cache
def program_facts() -> list[object]:
    """This program with its data (not the parts that run programs), Python, and the parser."""
    package = Path(__file__).resolve().parents[2]
    stamps = sorted((*_stamps(package, (".py", ".json")), *_stamps(builtin_rules_dir(), (".json",))))
    return [__version__, list(sys.version_info[:3]), _installed("libcst"), stamps]


def _stamps(folder: Path, endings: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """The names, sizes and times of the files below a folder, those that end so."""
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name in _RUNNING:
                    continue
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.name.endswith(endings):
                    status = entry.stat()
                    yield entry.name, status.st_size, status.st_mtime_ns


def _installed(package: str) -> list[str]:
    """The names of what describes an installed package, which have its version; empty where there is nothing.

    importlib.metadata says the same, and takes longer to import than all else that is done here.
    """
    found = find_spec(package)
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent.parent
    return sorted(path.name for path in folder.glob(f"{package}-*-info"))


class StoredFacts(Struct, frozen=True):
    """The place of the facts of a project's files. `contents` has the digest of each file by path."""

    store: Store
    contents: Mapping[str, str]

    def get(self, paths: Iterable[str]) -> dict[str, tuple[bytes, FileFacts | None]]:
        """The facts of files that are stored, encoded and not, by path; none that is damaged."""
        names = {path: _name(self.contents[path]) for path in paths}
        records = self.store.get(set(names.values()), msgspec.Raw)
        found: dict[str, tuple[bytes, FileFacts | None]] = {}
        for path, name in names.items():
            record = bytes(records.get(name, b""))
            try:
                found[path] = record, decoded(record)
            except msgspec.DecodeError:  # of nothing, too
                continue
        return found

    def put(self, facts: Mapping[str, bytes]) -> None:
        """Store the encoded facts of files, by path."""
        self.store.put({_name(self.contents[path]): msgspec.Raw(each) for path, each in facts.items()})


def _name(digest: str) -> str:
    return hashlib.sha256(f"{_prefix()}{digest}".encode()).hexdigest()


@cache
def _prefix() -> str:
    """The name of what facts depend on besides a file: this program and Python."""
    return name_of("facts")
