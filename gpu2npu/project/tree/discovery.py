"""The contents of a project: every path under its root, sorted into what is migrated, copied, linked or left out.

Symbolic links are never followed. One that points into the copied tree is kept as a link with the same meaning: a
relative link keeps its text; an absolute link, or one that climbs out of the root and back in, is rewritten relative,
since its text would lead back to the source. A link that leaves the tree is left out and reported: the copy is made to
be moved to another machine, where such a link would dangle or, worse, point at something else.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from msgspec import Struct

from gpu2npu.project.errors import UsageError
from gpu2npu.records import PathNote

_SKIPPED_NAMES = frozenset({".git", ".hg", ".svn", "__pycache__"})


class Link(Struct, frozen=True):
    """A symbolic link to write: `target` is its text."""

    path: str
    target: str


class Tree(Struct, frozen=True):
    """A project's paths, relative to its root with forward slashes, each tuple sorted."""

    folders: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[PathNote, ...] = ()


@dataclass
class _Found:
    """A Tree in the making."""

    folders: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[PathNote] = field(default_factory=list)


def discover(root: Path, only: str | None = None) -> Tree:
    """Everything under `root` (a resolved folder), or just its file `only`.

    Raises UsageError if `root` cannot be listed or holds no Python file and no notebook.
    """
    if only is not None:
        return Tree(python=(only,)) if only.endswith(".py") else Tree(others=(only,))
    tree = listed(root)
    if not tree.python and not any(path.endswith(".ipynb") for path in tree.others):
        raise UsageError(f"The input '{root}' holds no Python file (.py) and no notebook (.ipynb).")
    return tree


def listed(root: Path) -> Tree:
    """Everything under `root` (a resolved folder). Raises UsageError if it cannot be listed."""
    found = _Found()
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"The input '{root}' cannot be read: {error.strerror}.") from error
    _sort_entries(entries, found)
    links = []
    for path in found.links:
        target = _retained_target(root, path, found.skipped)
        if target is not None:
            links.append(Link(path, target))
        else:
            found.notes.append(_left_link(root, path))
    return Tree(
        tuple(sorted(found.folders)),
        tuple(sorted(found.python)),
        tuple(sorted(found.others)),
        tuple(sorted(links, key=lambda link: link.path)),
        tuple(sorted(found.skipped)),
        tuple(sorted(found.notes)),
    )


def _sort_entries(entries: list[os.DirEntry[str]], found: _Found) -> None:
    pending = [("", entries)]
    while pending:
        prefix, entries = pending.pop()
        for entry in entries:
            path = prefix + entry.name
            if entry.name in _SKIPPED_NAMES:
                found.skipped.append(path)
            elif entry.is_symlink():
                found.links.append(path)
            elif not entry.is_dir(follow_symlinks=False):
                _sort_file(entry, path, found)
            elif _is_virtual_environment(entry.path):
                found.skipped.append(path)
            else:
                found.folders.append(path)
                try:
                    inner = list(os.scandir(entry.path))
                except OSError as error:
                    found.notes.append(PathNote(path, f"the folder cannot be read: {error.strerror}", failed=True))
                    continue
                pending.append((path + "/", inner))


def _sort_file(entry: os.DirEntry[str], path: str, found: _Found) -> None:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        found.notes.append(PathNote(path, f"the file cannot be read: {error.strerror}", failed=True))
        return
    if not stat.S_ISREG(mode):
        found.notes.append(PathNote(path, f"{_special_kind(mode)}, which is not copied", failed=False))
    elif entry.name.endswith(".py"):
        found.python.append(path)
    else:
        found.others.append(path)


def _special_kind(mode: int) -> str:
    kinds = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a named pipe"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _is_virtual_environment(folder: str) -> bool:
    """venv and virtualenv leave a pyvenv.cfg at the top of an environment, conda a folder conda-meta."""
    return os.path.lexists(os.path.join(folder, "pyvenv.cfg")) or os.path.isdir(os.path.join(folder, "conda-meta"))  # noqa: PTH112, PTH118


def _retained_target(root: Path, path: str, skipped: list[str]) -> str | None:
    """The text of the link in the copy, or None where it leads out of the copied tree."""
    link = root / path
    text = _text(link)
    inside = _inside(root, os.path.realpath(link))
    if inside is None or _is_under(inside, skipped):
        return None
    if text.startswith("/") or _climbs_out(path, text):
        return os.path.relpath(root / inside, link.parent)
    return text


def _text(link: Path) -> str:
    """Return what the link says, to the character: Path.readlink would tidy it up."""
    return os.readlink(link)  # noqa: PTH115


def _inside(root: Path, real: str) -> str | None:
    """The path relative to the root, "." for the root itself, None outside it."""
    relative = os.path.relpath(real, root)
    return None if relative == ".." or relative.startswith("../") else relative


def _climbs_out(path: str, text: str) -> bool:
    """Return whether following `text` from the link's folder passes above the root."""
    depth = len(PurePosixPath(path).parts) - 1
    for part in PurePosixPath(text).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _is_under(path: str, folders: list[str]) -> bool:
    parts = PurePosixPath(path).parts
    ancestors = {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return not ancestors.isdisjoint(folders)


def _left_link(root: Path, path: str) -> PathNote:
    reason = f"left out: a symbolic link to '{_text(root / path)}', outside the copied tree; link it again if needed"
    return PathNote(path, reason, failed=path.endswith(".py"))
