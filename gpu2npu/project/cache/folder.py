"""A folder of files that may be thrown away: answers of earlier checks. Their names are digests of what they depend on.

They are JSON: a cache folder is never run.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gpu2npu import __version__
from gpu2npu.rulebook.builtin import builtin_rules_dir

LARGEST_BYTES = 512 * 1024 * 1024
_PRUNED_TO = 0.8
_BETWEEN_PRUNINGS = 3600.0  # seconds
_FRESH = 24 * 3600.0  # an entry that is used is marked so once a day


def default_cache_dir() -> Path:
    """By the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "gpu2npu"


def entry_file(folder: Path, name: str) -> Path:
    """Return the file that keeps the entry of a name, which is the hexadecimal digits of a digest."""
    return folder / name[:2] / f"{name[2:]}.json"


def keep_fresh(file: Path, status: os.stat_result) -> None:
    """Mark a file as used, so that pruning leaves it."""
    if time.time() - status.st_mtime > _FRESH:
        with contextlib.suppress(OSError):
            os.utime(file)


@cache
def program_facts() -> list[object]:
    """This program with its data, Python, and the parsers: any of them may change an answer."""
    package = Path(__file__).resolve().parents[2]
    stamps = sorted((*_stamps(package, (".py", ".json")), *_stamps(builtin_rules_dir(), (".json",))))
    return [__version__, list(sys.version_info[:3]), _installed("libcst"), _installed("jedi"), stamps]


def _stamps(folder: Path, endings: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """The names, sizes and times of the files below a folder, those that end so."""
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.name.endswith(endings):
                    status = entry.stat()
                    yield entry.name, status.st_size, status.st_mtime_ns


def _installed(package: str) -> list[str]:
    """The names of what describes an installed package, which have its version; empty where there is nothing.

    importlib.metadata says the same, and takes longer to import than all that is asked of it here.
    """
    found = find_spec(package)
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent.parent
    return sorted(path.name for path in folder.glob(f"{package}-*-info"))


def prune(folder: Path, largest: int = LARGEST_BYTES) -> None:
    """Takes the entries out that were not used for longest, once the folder is larger than `largest` bytes; looks at
    most once an hour. Another run may do the same at the same time."""
    mark = folder / "pruned"
    with contextlib.suppress(OSError):
        if time.time() - mark.stat().st_mtime < _BETWEEN_PRUNINGS:
            return
    with contextlib.suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_bytes(b"")
        entries = sorted(_entries(folder))
        size = sum(entry[1] for entry in entries)
        if size <= largest:
            return
        for _, length, name in entries:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            size -= length
            if size <= largest * _PRUNED_TO:
                return


def _entries(folder: Path) -> Iterable[tuple[float, int, str]]:
    """Yield when each entry was last used, its size and path."""
    for part in folder.iterdir():
        if len(part.name) == 2 and part.is_dir():
            for entry in os.scandir(part):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime, status.st_size, entry.path
