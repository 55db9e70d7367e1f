"""Writing the copy of a project: folders, files with their modes and times, links."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gpu2npu.formats.kinds import HEAD_BYTES
from gpu2npu.language import message
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.tree.discovery import Tree
from gpu2npu.records import PathNote

# Bytes. The syntax tree of a Python file and what is found out about it take 150 times as much memory; other files are
# data when they are so large, but for notebooks with pictures in them.
LARGEST_PYTHON = 4_000_000
LARGEST_OTHER = 100_000_000
_FILES_REMOVED = 500  # between two words of progress


def mirror(tree: Tree, root: Path, copy: Path, progress: Progress = no_progress) -> list[PathNote]:
    """Writes the folders, links and files of `tree`, Python files too, under the empty folder `copy`.

    Returns a note for each file that cannot be read. Raises OSError if the copy cannot be written. Folders are left
    writable; `finish_folders` gives them their modes when nothing more is to be written.
    """
    for folder in tree.folders:
        (copy / folder).mkdir()
    for link in tree.links:
        (copy / link.path).symlink_to(link.target)
    notes = []
    paths = (*tree.python, *tree.others)
    for done, path in enumerate(paths, start=1):
        notes.append(_copy_file(root / path, copy / path, path))
        progress(done, len(paths), message("copied"))
    return [note for note in notes if note is not None]


def _copy_file(source: Path, target: Path, path: str) -> PathNote | None:
    try:
        source.open("rb").close()
    except OSError as error:
        return _unreadable(path, error)
    shutil.copy2(source, target)
    _drop_rights_of_another_owner(source, target)
    return None


def _drop_rights_of_another_owner(source: Path, target: Path) -> None:
    """Take setuid and setgid from a copy that is of another user or group: it would run with other rights."""
    before, after = source.stat(), target.stat()
    mode = after.st_mode
    if after.st_uid != before.st_uid:
        mode &= ~stat.S_ISUID
    if after.st_gid != before.st_gid:
        mode &= ~stat.S_ISGID
    if mode != after.st_mode:
        target.chmod(stat.S_IMODE(mode))


def replace_content(file: Path, content: bytes) -> None:
    """Writes `content` into a mirrored file, whose mode stays; it may be one that forbids writing."""
    mode = file.stat().st_mode
    if not mode & 0o200:
        file.chmod(mode | 0o200)
    file.write_bytes(content)
    if not mode & 0o200:
        file.chmod(mode)


def read_head(file: Path, size: int = HEAD_BYTES) -> bytes:
    """The first bytes of a file, as many as its kind is found by; b"" if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(size)
    except OSError:
        return b""


def add_file(file: Path, content: bytes) -> None:
    """Writes a file that the source does not have."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def finish_folders(tree: Tree, root: Path, copy: Path) -> None:
    """Gives the copied folders, the root too, the modes of their sources, and all but the root their times: innermost
    first, since a mode may forbid writing."""
    for folder in sorted(tree.folders, reverse=True):
        shutil.copystat(root / folder, copy / folder)
    shutil.copymode(root, copy)


def remove_within(folder: Path, seconds: float) -> None:
    """Remove what there is time for of a folder, which the next run into the same output removes whole."""
    end = time.monotonic() + seconds
    for parent, folders, names in os.walk(folder, topdown=False):
        for name in (*names, *folders):
            if time.monotonic() > end:
                return
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def remove_tree(folder: Path, progress: Progress = no_progress) -> None:
    """Removes a folder with all that is in it, folders that forbid writing included. Raises OSError."""
    files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    with contextlib.suppress(OSError):
        for done, file in enumerate(files, 1):
            file.unlink()
            if done % _FILES_REMOVED == 0 or done == len(files):
                progress(done, len(files), message("removed"))
    try:
        shutil.rmtree(folder)
    except PermissionError:
        folder.chmod(0o700)
        for parent, names, _ in os.walk(folder):
            for inner in (Path(parent, name) for name in names):
                if not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(folder)


def read_files(root: Path, paths: Iterable[str]) -> tuple[dict[str, bytes], list[PathNote]]:
    """The bytes of each file that can be read, and a note for each that cannot, or is too large to be looked at."""
    contents: dict[str, bytes] = {}
    notes = []
    for path in paths:
        content = _read(root / path, path)
        if isinstance(content, PathNote):
            notes.append(content)
        else:
            contents[path] = content
    return contents, notes


def _read(file: Path, path: str) -> bytes | PathNote:
    kind, limit = ("a Python file", LARGEST_PYTHON) if path.endswith(".py") else ("a file", LARGEST_OTHER)
    try:
        if file.stat().st_size > limit:
            reason = f"it was not looked at: it is larger than {limit // 1_000_000} MB, the limit for {kind}"
            return PathNote(path, reason, failed=path.endswith((".py", ".ipynb")))
        return file.read_bytes()
    except OSError as error:
        return _unreadable(path, error)


def _unreadable(path: str, error: OSError) -> PathNote:
    return PathNote(path, f"the file cannot be read: {error.strerror}", failed=True)


class ProjectReader(Struct, frozen=True):
    """Gives the bytes of a file by its path in the project. Picklable. Raises OSError."""

    root: Path

    def __call__(self, path: str) -> bytes:
        return (self.root / path).read_bytes()
