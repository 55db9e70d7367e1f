"""The facts of Python files on disk, by the content of each: a file that did not change is not parsed again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache

import msgspec
from msgspec import Struct

from gpu2npu.project.cache.store import Store, name_of
from gpu2npu.python.facts.record import FileFacts, decoded


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
