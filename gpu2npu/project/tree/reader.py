"""Reading another file of the project, where an analysis follows an import into it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class ProjectReader(Struct, frozen=True):
    """Gives the bytes of a file by its path in the project. Picklable. Raises OSError."""

    root: Path

    def __call__(self, path: str) -> bytes:
        return (self.root / path).read_bytes()
