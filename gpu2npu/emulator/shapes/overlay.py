"""Files in a shapes-only run: those that were there before stay as they were, checkpoints are in a folder of the run.

That folder is laid over the file system, as overlay file systems do: what the run has written for a path is seen there,
and what the program removed is marked as gone. So a program renames, lists, loads and removes its own checkpoints, and
those of earlier runs are not touched. Files that were not there before are written as always.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any

_GONE = ".gpu2npu-gone."  # before the name of a file that the program no longer sees
_CHANGED = ".gpu2npu-changed."  # before the name of a folder whose mode or times the program changed
_MOVED = "/proc/self/root"  # begins a link in the run's folder to a file that the program renamed
_MOST_LINKS = 40  # in a path, as Linux has it
_SYSTEM = ("/dev/", "/proc/", "/sys/")


class _Thread(threading.local):
    outside = False


_thread = _Thread()


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """See the file system as it is."""
    before, _thread.outside = _thread.outside, True
    try:
        yield
    finally:
        _thread.outside = before


def is_outside() -> bool:
    """Return whether this thread sees the file system as it is."""
    return _thread.outside


class Overlay:
    """The run's `folder` over the file system. Paths are absolute and the program's own, but where it is said."""

    def __init__(self, folder: str, begun: int) -> None:
        self.folder, self.begun = os.path.realpath(folder), begun  # nanoseconds, of the system's clock for files
        self.taken: set[str] = set()  # folders whose files are all checkpoints
        self.made: set[str] = set()  # folders that this process really made
        self.written: dict[str, str] = {}  # where the program opened files to write
        report = os.environ.get("GPU2NPU_OP_REPORT")
        self._ours = {os.path.realpath(report)} if report else set()

    # Paths.

    def path(self, given: Any, folder: int | None = None, follow: bool = True) -> str | None:
        """Return the path that the program means, without links in it; None for anything else."""
        try:
            text = os.readlink(f"/proc/self/fd/{given}") if isinstance(given, int) else os.fsdecode(given)
            if folder is not None:
                text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        except (TypeError, OSError):
            return None
        text = os.path.join(os.getcwd(), text)
        parent, name = os.path.split(self.own(text).rstrip("/"))
        if follow or name in ("", ".", ".."):
            return self._resolved(self.own(text))
        return os.path.join(self._resolved(parent), name)

    def own(self, path: str) -> str:
        """Return the program's own path for a real one, which may be in the run's folder."""
        return path[len(self.folder) :] or "/" if f"{path}/".startswith(f"{self.folder}/") else path

    def _resolved(self, path: str) -> str:
        """Return a path without links in it, those that the program sees."""
        done, parts, links = "/", path.split("/")[::-1], 0
        while parts:
            name = parts.pop()
            at = os.path.join(done, name)
            found = self.seen(at)
            if name == "..":
                done = os.path.dirname(done)
            elif found is not None and links < _MOST_LINKS and os.path.islink(found):
                target = self.own(os.readlink(found))
                done = "/" if target.startswith("/") else done
                parts += target.split("/")[::-1]
                links += 1
            elif name not in ("", "."):
                done = at
        return done

    def place(self, path: str) -> str:
        """Return the real path of what the run wrote for a path."""
        return self.folder + path

    def seen(self, path: str) -> str | None:
        """Return the real path of what the program sees at a path; None if it removed that."""
        place = self.place(path)
        if os.path.lexists(place) and not (os.path.isdir(place) and not os.path.islink(place) and os.path.isdir(path)):
            return self._source(place) or place
        return None if self.is_gone(path) else path

    @staticmethod
    def _source(place: str) -> str | None:
        """Return where the file really is that the program renamed to a place."""
        target = os.readlink(place) if os.path.islink(place) else ""
        return target.removeprefix(_MOVED) if target.startswith(f"{_MOVED}/") else None

    def exists(self, path: str) -> bool:
        """Return whether the program sees something at a path."""
        found = self.seen(path)
        return found is not None and os.path.lexists(found)

    def is_gone(self, path: str) -> bool:
        """Return whether what is really at a path is not to be seen."""
        return os.path.lexists(self._mark(path))

    def hide(self, path: str) -> None:
        """No longer show what is really at a path."""
        mark = self._mark(path)
        os.makedirs(os.path.dirname(mark), exist_ok=True)
        with open(mark, "w"):
            pass

    def into(self, path: str) -> str:
        """Return the place for a path, ready to be written; what is really there is no longer seen."""
        if os.path.lexists(path):
            self.hide(path)
        place = self.place(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place

    def _mark(self, path: str, of: str = _GONE) -> str:
        parent, name = os.path.split(path)
        return os.path.join(self.folder + parent, of + name)

    def outline(self, path: str) -> str | None:
        """Return the folder that has the mode and times which the program gave to one that is really there."""
        place = self._mark(path, _CHANGED)
        return place if os.path.isdir(place) else None

    def to_outline(self, path: str) -> str | None:
        """Return the folder to change in place of one that was there before; None for anything else."""
        if path in self.made or not os.path.isdir(path) or os.path.islink(path) or self.is_gone(path):
            return None
        place = self._mark(path, _CHANGED)
        if not os.path.isdir(place):
            os.makedirs(place)
            shutil.copystat(path, place)
        return place

    def is_old(self, path: str) -> bool:
        """Return whether a file or link was there before the run."""
        try:
            found = os.lstat(path)
        except OSError:
            return False
        if path.startswith(_SYSTEM) or path in self._ours or stat.S_ISDIR(found.st_mode):
            return False
        changed = min(found.st_ctime_ns, found.st_mtime_ns)  # a link changes the first alone
        return changed <= self.begun and (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode))

    def belongs(self, path: str) -> bool:
        """Return whether what is made at a path is made in the run's folder, as its folder is there."""
        parent = os.path.dirname(path)
        if not os.path.isdir(parent) and os.path.isdir(self.place(parent)):
            return True
        return any(path == each or path.startswith(each + "/") for each in self.taken)

    # What the program does.

    def target(self, path: str, truncates: bool) -> str:
        """Return the real path to write for a path, with its contents unless they are to be truncated."""
        place = self.place(path)
        if os.path.lexists(place) and not os.path.isdir(place):
            if os.path.islink(place):
                source = os.path.realpath(place)
                os.unlink(place)
                if not truncates:
                    shutil.copy2(source, place)
            return place
        if self.is_old(path) and not self.is_gone(path) and not truncates:
            return str(shutil.copy2(path, self.into(path)))
        return self.into(path) if self.is_old(path) or self.is_gone(path) or self.belongs(path) else path

    def take(self, folder: Any) -> None:
        """Have all that the program writes below a folder from now on in the run's folder."""
        own = self.path(folder)
        if own is not None:
            self.taken.add(own)

    def write(self, given: Any, text: bytes) -> None:
        """Write a file of the program in the run's folder. Raises RuntimeError, as torch.save, if it has no folder."""
        with outside():
            own = self.path(given) or ""
            parent = os.path.dirname(own)
            if not os.path.isdir(self.seen(parent) or ""):
                raise RuntimeError(f"Parent directory {os.path.dirname(os.fspath(given))} does not exist.")
            place = self.into(own)
            if os.path.islink(place):  # to a file of another name
                os.unlink(place)
            with open(place, "wb") as file:
                file.write(text)

    def withdraw(self, path: str) -> None:
        """Move a file that the run has really written to the run's folder."""
        with outside():
            if self.seen(path) == path:
                place = self.into(path)
                shutil.move(path, place)

    def names(self, path: str) -> set[str]:
        """Return the names that the program sees in a folder."""
        found = (*_names(path), *(name for name in _names(self.place(path)) if not name.startswith((_GONE, _CHANGED))))
        return {name for name in found if self.exists(os.path.join(path, name))}

    def remove(self, path: str) -> bool:
        """Remove a file from sight; return False if it is a file of this run that is really there."""
        place = self.place(path)
        if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
            os.unlink(place)
        elif self.is_old(path):
            self.hide(path)
        else:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        """Rename a file, a link or a folder."""
        found = self.seen(source) or source
        if os.path.isdir(found) and not os.path.islink(found):
            if self.exists(target) and self.names(target):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), source, None, target)
            if not os.path.isdir(self.place(source)) and not self._has_old(source) and not self.is_gone(target):
                os.rename(source, target)
                return
            if not self.exists(target):
                self.mkdir(target) if os.path.isdir(source) else os.makedirs(self.place(target))
            for name in self.names(source):
                self.rename(os.path.join(source, name), os.path.join(target, name))
            self.rmdir(source)
        elif os.path.lexists(self.place(source)):
            os.replace(self.place(source), self.into(target))
        elif self.is_old(source):
            place = self.into(target)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            os.symlink(_MOVED + source, place)
            self.hide(source)
        elif self.is_old(target) or os.path.lexists(self.place(target)) or self.belongs(target):
            shutil.move(source, self.into(target))
        else:
            os.replace(source, target)

    def _has_old(self, folder: str) -> bool:
        return any(self.is_old(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Make a folder."""
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if (outline := self.outline(path)) is not None:
            os.rmdir(outline)
        if self.is_gone(path) and os.path.isdir(path):
            os.unlink(self._mark(path))  # what was in it is gone each for itself
        elif self.is_gone(path) or self.belongs(path):
            os.makedirs(self.place(path), exist_ok=True)
        else:
            os.mkdir(path, mode)
            self.made.add(path)

    def rmdir(self, path: str) -> None:
        """Remove a folder that the program sees as empty."""
        if self.names(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        if os.path.isdir(path):
            if os.listdir(path):
                self.hide(path)
                return
            os.rmdir(path)
        shutil.rmtree(self.place(path), ignore_errors=True)

    def link(self, target: str, at: str, make: Callable[[str, str], Any]) -> bool:
        """Make a link to what the program sees at `target`; return False if both are really there."""
        found = self.seen(target) or target
        if found == target and not (self.is_gone(at) or self.belongs(at) or os.path.lexists(self.place(at))):
            return False
        if self.exists(at):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), at)
        make(found, self.into(at))
        return True


def _names(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []
