"""The folders that a run reads and writes, and the checks of them: nothing is written before every check has passed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from gpu2npu.formats.kinds import HEAD_BYTES, kind_of
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings

_NAMED = 5  # changed files that a message names


class Output(Struct, frozen=True):
    """The output of a run: it is written below `folder`, in the place of an earlier one if `force` says so. `log_level`
    is how much the log says; `command` is what run_distributed_npu.sh starts for each NPU, a word each; none: it is
    written for a project on several cards only, to be filled in."""

    folder: Path
    force: bool = False
    log_level: str = "info"
    command: tuple[str, ...] = ()


class Location(Struct, frozen=True):
    """The places that a run reads and writes.

    `root` is the folder of the project's files, resolved; `only` the one file of it that is looked at, if the source is
    a file; `destination` the folder to write, None if nothing is written.
    """

    root: Path
    name: str
    only: str | None
    destination: Path | None


def locate(source: Path, settings: Settings, output: Output | None = None, suffix: str = "msft") -> Location:
    """Check the settings and paths, and return where is read and written: the folder OUT/<name>_<suffix>.

    Raises UsageError with the first reason why it cannot be done.
    """
    settings.check()
    resolved = _check_source(source)
    only = None if resolved.is_dir() else resolved.name
    name = resolved.name if only is None else resolved.stem
    if not name:
        raise UsageError(f"The input '{source}' has no name to call the output by; give a project's folder.")
    destination = None
    if output is not None:
        destination = _check_output(output.folder, source, resolved) / f"{name}_{suffix}"
        _check_destination(destination, resolved, output.force)
    return Location(resolved if only is None else resolved.parent, name, only, destination)


def _check_source(source: Path) -> Path:
    """The resolved source."""
    try:
        if source.is_symlink():
            raise UsageError(f"The input '{source}' is a symbolic link; give the folder or file it points to.")
        if source.is_dir():
            with os.scandir(source):
                pass
        elif source.is_file():
            with source.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if kind_of(source.name, head) is None:
                raise UsageError(f"The input '{source}' is not a Python file (.py), nor of another kind it migrates.")
        else:
            raise UsageError(f"The input '{source}' does not exist or is neither a folder nor a file.")
        return source.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"The input '{source}' cannot be read: {error.strerror}.") from error


def _check_output(output: Path, shown_source: Path, source: Path) -> Path:
    """The resolved output folder, which need not exist yet."""
    try:
        resolved = output.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"The output folder '{output}' cannot be used: {error}.") from error
    if source.is_dir() and resolved.is_relative_to(source):
        raise UsageError(f"The output folder '{output}' is inside the input '{shown_source}'; choose one outside it.")
    existing = next(folder for folder in (resolved, *resolved.parents) if os.path.lexists(folder))
    if not existing.is_dir():
        raise UsageError(f"The output folder '{output}' cannot be made, because '{existing}' is not a folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"The output folder '{output}' cannot be written to: no permission to write in '{existing}'.")
    return resolved


def _check_destination(destination: Path, source: Path, force: bool) -> None:
    if source.is_relative_to(destination):
        raise UsageError(f"The output '{destination}' would replace the folder that the input is in; choose another.")
    if not os.path.lexists(destination):
        return
    if destination.is_symlink() or not destination.is_dir():
        raise UsageError(f"The output '{destination}' exists and is not a folder; move it away or choose another.")
    if not force:
        changed = changed_files(destination)
        lost = f" Changed in it since, and lost with --force: {changed}." if changed else ""
        raise UsageError(f"The output '{destination}' exists; give --force to replace it, or another folder.{lost}")


def changed_files(copy: Path) -> str:
    """The files of a migrated copy that were written after its log, which a migration writes last, Python first: the
    first few by name, and the number of all; "" where there are none, or no log."""
    from gpu2npu.report.log import LOG_NAME  # logging's handlers take longer to import than all the rest here

    log = copy / LOG_NAME
    written = log.stat().st_mtime_ns if log.is_file() else time.time_ns()
    found = sorted(
        (
            path.relative_to(copy).as_posix()
            for folder, _, files in os.walk(copy)
            if "__pycache__" not in Path(folder).parts
            for path in (Path(folder, name) for name in files)
            if path.lstat().st_mtime_ns > written
        ),
        key=lambda name: (not name.endswith(".py"), name),
    )
    more = f", ... ({len(found)})" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more
