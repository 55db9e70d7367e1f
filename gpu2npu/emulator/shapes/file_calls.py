"""The functions of `os`, and `open`, by which a program in a shapes-only run sees its overlay.

What opens files in C++, and commands that the program starts, see the file system as it is.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from gpu2npu.emulator.shapes.overlay import Overlay, is_outside, outside


class _Entry:
    """An entry of a folder that is in the run's folder, with the program's own path."""

    def __init__(self, entry: os.DirEntry[str], path: str) -> None:
        self._entry, self.path = entry, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return self.path


class _Entries(contextlib.AbstractContextManager["_Entries"]):
    """The entries of a folder, as `os.scandir` returns them."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""


def install(folder: str, begun: int) -> Overlay:
    """Lay `folder` over the file system, for this process.

    Args:
        folder: Where the run's own files are; all processes of a run share it.
        begun: When the run began, in nanoseconds; files with an earlier change are not changed.
    """
    over = Overlay(folder, begun)
    for name, call in _CALLS.items():
        if hasattr(os, name):
            setattr(os, name, _through(over, getattr(os, name), call))
    builtins.open = io.open = _through(over, open, _open)
    if sys.version_info < (3, 11):  # pathlib had taken the functions as it was imported
        import pathlib

        accessor = pathlib._NormalAccessor  # type: ignore[attr-defined]
        for name in (*_CALLS, "open"):
            if hasattr(accessor, name):
                setattr(accessor, name, staticmethod(getattr(io if name == "open" else os, name)))
    return over


def _through(over: Overlay, native: Callable[..., Any], call: Callable[..., Any]) -> Any:
    @functools.wraps(native)
    def through(*args: Any, **kwargs: Any) -> Any:
        if is_outside():
            return native(*args, **kwargs)
        with outside():
            return call(over, native, *args, **kwargs)

    return through


def to_read(over: Overlay, path: Any) -> Any:
    """Return the real path of a file that is opened without `open`; another object as it is."""
    if not isinstance(path, (str, os.PathLike)):
        return path
    with outside():
        return os.fspath(_found(over, path))


def to_write(over: Overlay, path: Any) -> Any:
    """Return the real path of a file that is made without `open`; another object as it is."""
    if not isinstance(path, (str, os.PathLike)):
        return path
    with outside():
        return os.fspath(_written(over, path, None, truncates=True, is_new=False))


def _found(over: Overlay, path: Any, folder: int | None = None, follow: bool = True) -> Any:
    """Return the real path of what the program sees at a path; `path` itself where nothing is over it."""
    if isinstance(path, int) or not os.path.lexists(over.folder):
        return path
    own = over.path(path, folder, follow)
    found = own if own is None else over.seen(own)
    if own is not None and found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path if found == own else found


def _read(over: Overlay, native: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function that looks at one path."""
    follow = kwargs.get("follow_symlinks", True) and native.__name__ not in ("lstat", "readlink")
    try:
        found = _found(over, path, kwargs.get("dir_fd"), follow)
    except FileNotFoundError:
        if native.__name__ == "access":
            return False
        raise
    if found is path and native.__name__ in ("stat", "lstat") and os.path.lexists(over.folder):
        own = None if isinstance(path, int) else over.path(path, kwargs.get("dir_fd"), follow)
        found = path if own is None else over.outline(own) or path
    if found is not path:
        kwargs.pop("dir_fd", None)
    return native(found, *args, **kwargs)


def _change(over: Overlay, native: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    """Change the mode, times, owner or attributes of a file or folder: of a copy, if it was there before the run."""
    own = None if isinstance(path, int) else over.path(path, kwargs.get("dir_fd"), kwargs.get("follow_symlinks", True))
    seen = None if own is None else over.seen(own)
    outline = over.to_outline(own) if own is not None and seen == own else None
    if outline is not None:
        kwargs.pop("dir_fd", None)
        return native(outline, *args, **kwargs)
    if own is None or seen is None or not over.is_old(seen):
        return _read(over, native, path, *args, **kwargs)
    if os.path.islink(seen):
        return None
    kwargs.pop("dir_fd", None)
    return native(over.target(own, truncates=False), *args, **kwargs)


def _scan(over: Overlay, native: Any, path: Any = ".") -> Any:
    own = over.path("." if path is None else path)
    if own is None or not (os.path.isdir(over.place(own)) or over.is_gone(own)):
        return native(path)
    _found(over, own)
    names, entries = over.names(own), {}
    if os.path.isdir(own):
        with native(path) as found:
            entries = {os.fsdecode(entry.name): entry for entry in found if os.fsdecode(entry.name) in names}
    if os.path.isdir(over.place(own)):
        with native(os.fsencode(over.place(own)) if isinstance(path, bytes) else over.place(own)) as found:
            for entry in found:
                name = os.fsdecode(entry.name)
                if name in names and not (name in entries and entry.is_dir()):
                    at = entry.name if isinstance(path, int) else os.path.join(path or ".", entry.name)
                    entries[name] = _Entry(entry, at)
    return _Entries(list(entries.values()))


def _list(over: Overlay, native: Any, path: Any = ".") -> Any:
    own = over.path("." if path is None else path)
    if own is None or not (os.path.isdir(over.place(own)) or over.is_gone(own)):
        return native(path)
    _found(over, own)
    names = sorted(over.names(own))
    return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names


def _folder(over: Overlay, native: Any) -> Any:
    path = native()
    return os.fsencode(over.own(os.fsdecode(path))) if isinstance(path, bytes) else over.own(path)


def _written(over: Overlay, given: Any, folder: int | None, truncates: bool, is_new: bool) -> Any:
    """Return the real path where a file is opened to write; `given` if it is that of the program."""
    own = over.path(given, folder)
    if own is None or os.path.isdir(over.seen(own) or own):
        return given
    if is_new and over.exists(own):
        return over.seen(own)
    target = over.target(own, truncates)
    over.written[own] = target
    return given if target == own else target


def _open(over: Overlay, native: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    if isinstance(file, int) or not isinstance(mode, str):
        return native(file, mode, *args, **kwargs)
    if set(mode) & set("wax+"):
        return native(_written(over, file, None, "w" in mode, "x" in mode), mode, *args, **kwargs)
    return native(_found(over, file), mode, *args, **kwargs)


def _os_open(over: Overlay, native: Any, path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
    if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return _read(over, native, path, flags, *args, **kwargs)
    where = _written(over, path, kwargs.get("dir_fd"), bool(flags & os.O_TRUNC), bool(flags & os.O_EXCL))
    if where is not path:
        kwargs.pop("dir_fd", None)
    return native(where, flags, *args, **kwargs)


def _truncate(over: Overlay, native: Any, path: Any, length: int) -> None:
    native(path if isinstance(path, int) else _written(over, path, None, False, False), length)


def _remove(over: Overlay, native: Any, path: Any, *, dir_fd: int | None = None) -> None:
    own = over.path(path, dir_fd, follow=False)
    _found(over, path, dir_fd, follow=False)
    if own is None or not over.remove(own):
        native(path, dir_fd=dir_fd)


def _rename(
    over: Overlay,
    native: Any,
    src: Any,
    dst: Any,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
) -> None:
    source, target = over.path(src, src_dir_fd, follow=False), over.path(dst, dst_dir_fd, follow=False)
    _found(over, src, src_dir_fd, follow=False)
    if source is None or target is None or not over.exists(source):
        native(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
    elif source != target:
        over.rename(source, target)


def _mkdir(over: Overlay, native: Any, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    own = over.path(path, dir_fd)
    native(path, mode, dir_fd=dir_fd) if own is None else over.mkdir(own, mode)


def _rmdir(over: Overlay, native: Any, path: Any, *, dir_fd: int | None = None) -> None:
    own = over.path(path, dir_fd, follow=False)
    _found(over, path, dir_fd, follow=False)
    if own is None or not over.exists(own) or not os.path.isdir(over.seen(own) or own):
        native(path, dir_fd=dir_fd)
    else:
        over.rmdir(own)


def _symlink(over: Overlay, native: Any, src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
    at = over.path(dst, kwargs.get("dir_fd"), follow=False)
    target = None if at is None else over.path(os.path.join(os.path.dirname(at), os.fsdecode(src)))
    if at is None or target is None or not over.link(target, at, lambda _, place: os.symlink(src, place)):
        native(src, dst, *args, **kwargs)


def _link(over: Overlay, native: Any, src: Any, dst: Any, **kwargs: Any) -> None:
    source = over.path(src, kwargs.get("src_dir_fd"))
    at = over.path(dst, kwargs.get("dst_dir_fd"), follow=False)
    if source is not None and at is not None and over.is_old(source):
        over.take(at)  # a second name of the file would change it
    if source is None or at is None or not over.link(source, at, shutil.copyfile):
        native(src, dst, **kwargs)


_CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("stat", "lstat", "access", "readlink", "chdir", "listxattr", "getxattr"), _read),
    **dict.fromkeys(("chmod", "chown", "utime", "setxattr", "removexattr"), _change),
    **dict.fromkeys(("getcwd", "getcwdb"), _folder),
    **dict.fromkeys(("remove", "unlink"), _remove),
    **dict.fromkeys(("rename", "replace"), _rename),
    "open": _os_open,
    "truncate": _truncate,
    "scandir": _scan,
    "listdir": _list,
    "mkdir": _mkdir,
    "rmdir": _rmdir,
    "symlink": _symlink,
    "link": _link,
}
