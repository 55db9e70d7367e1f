"""All or nothing: the output is made in a hidden folder beside its destination and renamed into place when complete.

A run holds a lock on its hidden folder. One that was killed leaves the folder without a lock, and the next run into the
same destination removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from gpu2npu.project.errors import OutputError
from gpu2npu.project.progress import Progress, no_progress
from gpu2npu.project.tree.mirror import remove_tree, remove_within
from gpu2npu.system import can_lock, locked

# From Linux's <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_SECONDS_AT_THE_END = 1.0


@contextlib.contextmanager
def staged(destination: Path, replace: bool, progress: Progress = no_progress) -> Iterator[Path]:
    """Yields an empty folder that becomes `destination` if the block ends well, and vanishes if it does not.

    Makes the parents of `destination`, and removes those it made if the block fails. With `replace`, the folder that is
    there before is removed after the new one has taken its place. Raises OutputError where the file system refuses.
    """
    made = [path for path in (destination.parent, *destination.parent.parents) if not path.exists()]
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(destination)
        with _locked_folder(destination, progress) as folder:
            yield folder
            _move_into_place(folder, destination, replace)
    except BaseException as error:
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise _output_error(destination, error) from error
        raise


def _output_error(destination: Path, error: OSError) -> OutputError:
    reason = error.strerror or error
    return OutputError(f"The output '{destination}' could not be written: {reason}; nothing of it is left.")


@contextlib.contextmanager
def _locked_folder(destination: Path, progress: Progress) -> Iterator[Path]:
    """A new hidden folder beside the destination; whatever is in it at the end is removed."""
    folder = destination.parent / f"{_prefix(destination)}{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        # Registered before the folder is made: an interrupt may come between any two lines.
        stack.push(_removal(folder, progress))
        folder.mkdir()
        with contextlib.suppress(OSError):  # where the file system has no locks, no run removes another's folder
            stack.enter_context(locked(folder))
        yield folder


def _removal(folder: Path, progress: Progress) -> Callable[[object, BaseException | None, object], None]:
    """Removes the folder at the end; a run that is asked to end takes no longer for it than a second."""

    def remove(_kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, Exception):
            try:
                _remove_if_possible(folder, progress)
            except BaseException as ended:  # of the folder that the output has replaced, since the other is renamed
                if error is None:
                    left = "The output is in place; the next run removes what is left of the one before."
                    ended.args = (f"{ended} {left}",)
                raise
        else:
            remove_within(folder, _SECONDS_AT_THE_END)

    return remove


def _remove_if_possible(folder: Path, progress: Progress = no_progress) -> None:
    """Remove a folder; what cannot be removed now, the next run removes."""
    with contextlib.suppress(OSError):
        remove_tree(folder, progress)


def _prefix(destination: Path) -> str:
    return f".{destination.name}.partial-"


def _remove_stale(destination: Path) -> None:
    if not can_lock():
        return
    for folder in destination.parent.glob(f"{_escaped(_prefix(destination))}*"):
        with contextlib.suppress(OSError), locked(folder):
            remove_tree(folder)


def _escaped(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _move_into_place(folder: Path, destination: Path, replace: bool) -> None:
    if not replace or not destination.exists():
        if destination.exists():
            raise OutputError(
                f"The output '{destination}' is there now, which another run has written; give --force to replace it."
            )
        folder.rename(destination)
    elif not _exchange(folder, destination):
        old = destination.parent / f"{_prefix(destination)}{secrets.token_hex(4)}"
        destination.rename(old)
        folder.rename(destination)
        _remove_if_possible(old)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step: a kill leaves the old output or the new one; False where the system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def write_atomically(file: Path, content: bytes) -> None:
    """Makes the folder if it is missing. What is not an ordinary file, such as /dev/stdout, is written as it is.

    Raises OSError, and leaves nothing then.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.realpath(file))
    scratch = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        scratch.write_bytes(content)
        if target.exists():
            scratch.chmod(target.stat().st_mode & 0o777)
        scratch.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
