"""Facts collected from a whole project before any file of it is looked at, kept on disk for the next check."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu2npu.codemods.plan import Plan
from gpu2npu.project.cache.folder import entry_file, keep_fresh, program_facts
from gpu2npu.project.cache.records import decoded_rewrite, encoded_rewrite
from gpu2npu.project.tree.atomic import write_atomically


@dataclass(frozen=True)
class ProjectFacts:
    """The fields of a ProjectContext that searches found, and what the codemods do."""

    own_members: Mapping[str, frozenset[str]]
    plan: Plan
    other_names: Mapping[bytes, frozenset[str]]


@dataclass(frozen=True)
class ProjectFactsCache:
    """Keeps what was collected from projects. `contents` has the digest of each Python file of this one."""

    folder: Path
    contents: Mapping[str, str]

    def get(self, facts: tuple[object, ...]) -> ProjectFacts | None:
        """Return what was collected from the same files under the same `facts`; None if it is missing or damaged."""
        file = self._file(facts)
        try:
            status = file.stat()
            found = _decoded(json.loads(file.read_bytes()))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        keep_fresh(file, status)
        return found

    def put(self, facts: tuple[object, ...], found: ProjectFacts) -> None:
        """Keep what was collected; a full disk is not an error."""
        with contextlib.suppress(OSError):
            write_atomically(self._file(facts), json.dumps(_encoded(found)).encode())

    def _file(self, facts: tuple[object, ...]) -> Path:
        known = ["project facts", program_facts(), sorted(self.contents.items()), repr(facts)]
        return entry_file(self.folder, hashlib.sha256(json.dumps(known).encode()).hexdigest())


def _encoded(found: ProjectFacts) -> dict[str, Any]:
    return {
        "own_members": {member: sorted(paths) for member, paths in found.own_members.items()},
        "other_names": {name.decode("latin-1"): sorted(each) for name, each in found.other_names.items()},
        "rewrites": {path: encoded_rewrite(rewrite) for path, rewrite in found.plan.rewrites.items()},
        "new_files": {path: content.decode("latin-1") for path, content in found.plan.new_files.items()},
    }


def _decoded(document: Mapping[str, Any]) -> ProjectFacts:
    rewrites = {path: decoded_rewrite(rewrite) for path, rewrite in document["rewrites"].items()}
    new_files = {path: content.encode("latin-1") for path, content in document["new_files"].items()}
    own_members = {member: frozenset(paths) for member, paths in document["own_members"].items()}
    other_names = {name.encode("latin-1"): frozenset(each) for name, each in document["other_names"].items()}
    return ProjectFacts(own_members, Plan(rewrites, new_files), other_names)
