"""The files of a source tree that a check looks into, read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu2npu.analysis.cuda_cpp.native_files import is_native
from gpu2npu.formats.kinds import kind_of, needs_head
from gpu2npu.project.check.request import SourceTree
from gpu2npu.project.tree.discovery import Tree, discover
from gpu2npu.project.tree.mirror import read_files, read_head
from gpu2npu.records import PathNote


@dataclass(frozen=True)
class TreeFiles:
    """The contents of a tree's files by path: `python` are all its Python files, for other files may depend on those
    that are `excluded` too; `others` those of other kinds that a migration looks into; `native` those that may hold C++
    or CUDA code. `notes` are about what was not read."""

    python: Mapping[str, bytes]
    others: Mapping[str, bytes]
    native: Mapping[str, bytes]
    excluded: frozenset[str]
    notes: tuple[PathNote, ...]

    @property
    def wanted(self) -> dict[str, bytes]:
        """The files that are looked into."""
        return {path: source for path, source in self.python.items() if path not in self.excluded} | {**self.others}


def read_tree(tree: SourceTree) -> TreeFiles:
    """Read the files of a tree. Raises UsageError where its folder cannot be read."""
    root = tree.place.root
    found = discover(root, tree.place.only)
    python, unread = read_files(root, found.python)
    others, unread_others = read_files(root, _of_some_kind(tree, found))
    native, unread_native = read_files(
        root, (path for path in found.others if is_native(path) and not tree.excludes(path))
    )
    excluded = frozenset(path for path in python if tree.excludes(path))
    notes = {*found.notes, *unread, *unread_others, *unread_native}
    return TreeFiles(python, others, native, excluded, tuple(notes))


def _of_some_kind(tree: SourceTree, found: Tree) -> list[str]:
    """The files that are not Python and that a migration looks into."""
    wanted = []
    for path in found.others:
        head = read_head(tree.place.root / path) if needs_head(path) else b""
        kind = kind_of(path, head)
        if kind is not None and kind.value not in tree.request.skip_kinds and not tree.excludes(path):
            wanted.append(path)
    return wanted
