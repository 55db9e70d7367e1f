"""The files of a source tree that a check looks into, read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gpu2npu.project.check.choice import CheckChoice, SourceTree
from gpu2npu.project.session import Session


class TreeFiles(Struct, frozen=True):
    """A tree with its session, and the contents of files by path: `others` are those of other kinds than Python that a
    migration looks into, `native` those that may hold C++ or CUDA code."""

    tree: SourceTree
    choice: CheckChoice
    session: Session
    others: Mapping[str, bytes]
    native: Mapping[str, bytes]

    @property
    def wanted(self) -> dict[str, bytes]:
        """The files that are looked into."""
        return self.session.wanted | {**self.others}
